# ruff: noqa: E501, N802 - messages and method names are those of Java
"""Exceptions as they come out of Spark → conditions."""

from __future__ import annotations

import traceback

import pytest
from pyspark.errors import PySparkException

from ds_dagster.conditions import CONDITIONS
from ds_dagster.errors import DsError, error
from ds_dagster.spark.crossing import crosses
from ds_dagster.spark.faults import RULES, Cause, classify


class Throwable:
    """What py4j shows of a Java exception."""

    def __init__(self, kind: str, message: str, cause: Throwable | None = None) -> None:
        self.kind, self.message, self.cause = kind, message, cause

    def getClass(self):
        return self

    def getName(self):
        return self.kind

    def getMessage(self):
        return self.message

    def getCause(self):
        return self.cause


def failed(*chain: tuple[str, str]) -> BaseException:
    """A streaming query's exception with Java causes, outermost first."""
    java = None
    for kind, message in reversed(chain):
        java = Throwable(kind, message, java)
    made = PySparkException("[STREAM_FAILED] Query [id = 1] terminated with exception: x")
    made._origin = java
    return made


CASES = [
    ("ENGINE_DISK_FULL", ("java.io.IOException", "No space left on device")),
    ("OUT_OF_MEMORY", ("java.lang.OutOfMemoryError", "Java heap space")),
    ("BATCH_TOO_LARGE", ("org.apache.spark.SparkException", "is bigger than spark.driver.maxResultSize (1024.0 MiB)")),
    ("INPUT_LOST", ("org.apache.spark.sql.kafka010.KafkaIllegalStateException", "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] x")),
    ("INPUT_LOST", ("org.apache.kafka.clients.consumer.OffsetOutOfRangeException", "Fetch position out of range")),
    ("INPUT_GONE", ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException", "This server does not host this topic")),
    ("KAFKA_TRANSACTION_FENCED", ("org.apache.kafka.common.errors.ProducerFencedException", "newer producer")),
    ("KAFKA_LOGIN_REFUSED", ("org.apache.kafka.common.errors.SaslAuthenticationException", "Authentication failed")),
    ("KAFKA_NOT_ALLOWED", ("org.apache.kafka.common.errors.TopicAuthorizationException", "Not authorized to access topics: [x]")),
    ("KAFKA_CERTIFICATE_UNREADABLE", ("org.apache.kafka.common.errors.InvalidConfigurationException", "Invalid PEM keystore configs")),
    ("KAFKA_MSK_JAR_MISSING", ("org.apache.kafka.common.config.ConfigException", "Class software.amazon.msk.auth.iam.IAMClientCallbackHandler could not be found.")),
    ("KAFKA_UNREACHABLE", ("org.apache.kafka.common.errors.TimeoutException", "Timed out waiting for a node assignment.")),
    ("KAFKA_UNREACHABLE", ("org.apache.kafka.common.config.ConfigException", "No resolvable bootstrap urls given")),
    ("RECORD_TOO_LARGE", ("org.apache.kafka.common.errors.RecordTooLargeException", "The message is 2000000 bytes")),
    ("CHECKPOINT_INCOMPATIBLE", ("org.apache.spark.sql.X", "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema")),
    ("CHECKPOINT_INCOMPATIBLE", ("java.lang.AssertionError", "There are [1] sources in the checkpoint offsets and now there are [2]")),
    ("CHECKPOINT_UNREADABLE", ("org.apache.spark.SparkException", "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error")),
    ("CHECKPOINT_IN_USE", ("org.apache.spark.SparkException", "Multiple streaming queries are concurrently using x")),
    ("NETWORK_FAILED", ("java.net.ConnectException", "Connection refused")),
    ("ARITHMETIC_FAILED", ("org.apache.spark.SparkRuntimeException", "[DUPLICATED_MAP_KEY] Duplicate map key s3cret was found")),
    ("ARITHMETIC_FAILED", ("org.apache.spark.SparkRuntimeException", "[USER_RAISED_EXCEPTION] ELEMENT of an ARRAY with more than one element")),
    ("ARITHMETIC_FAILED", ("org.apache.spark.SparkRuntimeException", "The key array and value array of MapData must have the same length.")),
    ("PATTERN_INVALID", ("org.apache.spark.SparkRuntimeException", "[INVALID_REGEXP_REPLACE] Could not perform regexp_replace for source = s3cret")),
    ("PATTERN_INVALID", ("java.util.UnknownFormatConversionException", "Conversion = 'q'")),
    ("PYTHON_WORKER_SLOW", ("java.net.SocketTimeoutException", "Timed out while waiting for the Python worker to connect back")),
    ("PLAN_REFUSED_BY_SPARK", ("org.apache.spark.sql.AnalysisException", "[STREAMING_OUTPUT_MODE.X] no")),
    ("SPARK_FAILED", ("java.lang.IllegalStateException", "something new")),
    ("KINESIS_THROTTLED", ("org.apache.spark.api.python.PythonException", "Traceback …\nds_dagster.errors.ExternalError: "
                           '[ds:KINESIS_THROTTLED] {"operation": "GetRecords", "stream": "s", "seconds": 3}\n')),
    ("KAFKA_WRITE_FAILED", ("org.apache.spark.SparkException", 'Job aborted: [ds:KAFKA_WRITE_FAILED] {"detail":"broker said no"}')),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cause"), CASES)
def test_known_failures(name, cause):
    found = classify(failed(("org.apache.spark.SparkException", "Job aborted"), cause))
    assert found.condition == name
    assert len(found.detail) <= 600


def test_a_java_exception_without_a_class_of_its_own_in_python():
    text = "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [x]"
    for told in (text, text.partition(":")[0]):
        found = classify(PySparkException(told), "k.x, k.y")
        assert (found.condition, found.message) == (
            "KAFKA_NOT_ALLOWED",
            "Kafka does not allow what the job needs on k.x, k.y",
        )
    assert classify(PySparkException("a text with java.lang.OutOfMemory in it")).condition == "SPARK_FAILED"


def test_values_of_users_stay_out():
    text = """[CAST_INVALID_INPUT] The value 'hunter2' of the type "STRING" cannot be cast to "BIGINT" because it is malformed. Correct the value."""
    found = classify(failed(("org.apache.spark.SparkNumberFormatException", text)))
    assert found.condition == "VALUE_NOT_CONVERTIBLE"
    assert '"STRING" cannot be cast to "BIGINT"' in str(found)
    assert "hunter2" not in str(found)


def test_values_of_a_replacement_stay_out():
    text = '[INVALID_REGEXP_REPLACE] Could not perform regexp_replace for source = "my hunter2. x", pattern = "a", replacement = "$1" and position = 1. SQLSTATE: 22023'
    found = classify(failed(("org.apache.spark.SparkRuntimeException", text)))
    assert (found.condition, found.params) == ("PATTERN_INVALID", {"reason": "Could not perform regexp_replace"})


@crosses
class Reader:
    """What Spark calls in a worker, and keeps the text of."""

    def refuses(self) -> None:
        raise error("KINESIS_OPTION_INVALID", name="shards", value="[x] {y}", allowed="1 to 10")

    def read(self):
        yield 1
        raise error("KINESIS_THROTTLED", operation="GetRecords", stream="s", seconds=3)

    def given(self):
        return self.read()


@pytest.mark.parametrize("call", [Reader.refuses, lambda r: list(r.read()), lambda r: list(r.given())])
def test_parameters_cross_the_python_worker(call):
    """All of them, those of the hint too, whatever they hold."""
    with pytest.raises(DsError) as raised:
        call(Reader())
    text = "[PYTHON_EXCEPTION] it failed:\n" + "".join(traceback.format_exception(raised.value)) + "\n\tat X.java"
    found = classify(failed(("org.apache.spark.api.python.PythonException", text)))
    assert (found.condition, found.params) == (raised.value.condition, raised.value.params)
    assert found.hint == raised.value.hint


def test_parameters_of_our_expressions():
    text = '[USER_RAISED_EXCEPTION] [ds:BAD_RECORD] {"entity":"m.t","relation":"a.b.c","partition":"0","position":"12","reason":"x"} SQLSTATE: P0001'
    found = classify(failed(("org.apache.spark.SparkRuntimeException", text)))
    assert found.params["position"] == "12"
    assert found.fault.domain == "user"


def test_our_own_errors_pass():
    mine = error("PLAN_NOT_STREAMABLE", reason="x")
    assert classify(mine) is mine


def test_every_rule_names_a_condition():
    assert {rule.name for rule in RULES} <= set(CONDITIONS)
    assert not any(rule.matches(Cause("a", "b", "c")) for rule in RULES)


def test_arithmetic_of_a_running_query(bench):
    bench.compile(
        "CREATE STREAM s (a INTEGER, b INTEGER) WITH ('topic' = 's', 'value.format' = 'json');"
        "CREATE STREAM d AS SELECT a / b AS q FROM s;"
    )
    query = bench.start("d")
    bench.send("s", {"a": 1, "b": 0})
    fault = bench.fault(query)
    assert fault.condition == "ARITHMETIC_FAILED"
    assert fault.fault.hint == "never"


def test_a_cast_of_a_running_query(bench):
    bench.compile(
        "CREATE STREAM s (a VARCHAR) WITH ('topic' = 's', 'value.format' = 'json');"
        "CREATE STREAM d AS SELECT CAST(a AS BIGINT) AS q FROM s;"
    )
    query = bench.start("d")
    bench.send("s", {"a": "hunter2"})
    fault = bench.fault(query)
    assert fault.condition == "VALUE_NOT_CONVERTIBLE"
    assert "hunter2" not in str(fault)


IN_A_CALLBACK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
py4j.protocol.Py4JJavaError: An error occurred while calling z:dsdagster.record.BatchParts.collect.
: org.apache.spark.SparkException: [FAILED_EXECUTE_UDF] a task failed
\tat org.apache.spark.Task.run(Task.scala:1)
Caused by: java.util.regex.PatternSyntaxException: Unclosed group near index 1
\tat java.base/java.util.regex.Pattern.error(Pattern.java:2028)
"""


def test_what_java_told_a_callback_is_heard():
    found = classify(failed(("py4j.Py4JException", IN_A_CALLBACK)))
    assert (found.condition, found.params) == ("PATTERN_INVALID", {"reason": "Unclosed group near index 1"})
    assert not found.detail


def test_no_text_of_the_gateway_is_shown():
    other = IN_A_CALLBACK.replace(
        "java.util.regex.PatternSyntaxException: Unclosed group", "java.lang.IllegalStateException: odd"
    )
    found = classify(failed(("py4j.Py4JException", other)))
    assert (found.condition, found.detail) == ("SPARK_FAILED", "IllegalStateException: odd near index 1")
