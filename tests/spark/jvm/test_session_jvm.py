"""What a JVM is given once, before its first query: names without a class, the configuration of Hadoop, and the data
sources of Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ds_dagster.jars import operator_jar

pytestmark = pytest.mark.spark
NAME = "dsdagster.Lists"


class Numbers(DataSource):
    """Two rows."""

    @classmethod
    def name(cls) -> str:
        return "numbers_of_a_test"

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: StructType) -> DataSourceReader:
        return NumbersReader()


class NumbersReader(DataSourceReader):
    """See :class:`Numbers`."""

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield from ((1,), (2,))


def test_a_name_without_a_class_is_searched_once(spark: SparkSession, tmp_path: Path) -> None:
    jvm = spark._jvm
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.net.URI(tmp_path.as_uri() + "/").toURL()
    platform = jvm.java.lang.ClassLoader.getPlatformClassLoader()
    below = jvm.java.net.URLClassLoader(urls, platform)
    asked = jvm.dsdagster.session.AbsentClasses(below)
    with pytest.raises(Py4JJavaError, match="ClassNotFoundException"):
        asked.loadClass(NAME)
    with ZipFile(operator_jar()) as jar:
        jar.extract(NAME.replace(".", os.sep) + ".class", tmp_path)
    assert below.loadClass(NAME).getName() == NAME
    with pytest.raises(Py4JJavaError, match="ClassNotFoundException"):
        asked.loadClass(NAME)
    assert jvm.dsdagster.session.AbsentClasses(below).loadClass(NAME).getName() == NAME


def test_threads_of_queries_and_of_tasks_have_the_loader(spark: SparkSession) -> None:
    """Tasks ask a loader of their own, and that one asks the loader of the thread that started Spark."""
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    assert loader.getClass().getName() == "dsdagster.session.AbsentClasses"


def test_defaults_of_yarn_and_mapreduce_are_out_and_what_was_set_is_there(spark: SparkSession) -> None:
    jvm, hadoop = spark._jvm, spark.sparkContext._jsc.hadoopConfiguration()
    unused = ("yarn.resourcemanager.hostname", "mapreduce.job.maps")
    assert [hadoop.get(name) for name in unused] == [None, None]
    assert hadoop.get("fs.trash.interval") == "0"
    fresh = jvm.org.apache.hadoop.conf.Configuration()
    assert fresh.get(unused[0]) == "0.0.0.0"
    fresh.set(unused[1], "7")
    assert jvm.dsdagster.session.HadoopDefaults.drop(fresh) > 500
    assert [fresh.get(name) for name in unused] == [None, "7"]


def test_data_sources_of_other_packages_are_not_looked_for(spark: SparkSession) -> None:
    """The session knows them to be none, and its own are found."""
    manager = getattr(spark._jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
    known = getattr(manager, "MODULE$").dataSourceBuilders()
    assert known.isDefined()
    assert known.get().isEmpty()
    spark.dataSource.register(Numbers)
    assert [row.n for row in spark.read.format("numbers_of_a_test").load().collect()] == [1, 2]
