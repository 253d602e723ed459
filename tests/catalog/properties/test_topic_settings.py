"""The table of settings of topics against Kafka's own class, in the jars of the client and of the broker."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ds_dagster.catalog.properties.topic_settings import TOPIC_SETTINGS
from ds_dagster.jars import set_folder

CLASS = "org/apache/kafka/common/config/TopicConfig.class"
NOT_IN_THE_CLASS = {
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "preallocate",
}
"""Those of QuotaConfig, and one whose name has no dot to tell it from a word."""
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Tag of a constant in a class file → its bytes (Java Virtual Machine Specification, table 4.4-A)."""


def texts(data: bytes) -> Iterator[str]:
    """The texts in the constant pool of a class file."""
    (count,) = struct.unpack_from(">H", data, 8)
    at, number = 10, 1
    while number < count:
        tag = data[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", data, at + 1)
            yield data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            at += 1 + SIZES[tag]
        number += 2 if tag in (5, 6) else 1


def jars() -> list[Path]:
    folders = (set_folder("spark-kafka"), set_folder("kafka-broker"))
    return [path for folder in folders for path in folder.glob("kafka-clients-*.jar")]


@pytest.mark.skipif(len(jars()) < 2, reason="no jars of Kafka on this machine: make setup")
def test_every_setting_of_kafka_and_no_other() -> None:
    named: set[str] = set()
    for path in jars():
        with zipfile.ZipFile(path) as jar:
            named |= {text for text in texts(jar.read(CLASS)) if re.fullmatch(r"[a-z]+(\.[a-z0-9]+)+", text)}
    assert {spec.name for spec in TOPIC_SETTINGS} - NOT_IN_THE_CLASS == named
