"""Exceptions of Spark, its sources and its sinks → our conditions.

Tried in this order: our own failure in its envelope (:mod:`ds_dagster.envelope`); a rule of :data:`RULES` over class
names, Spark's condition names and texts of all causes; SPARK_FAILED. Results contain no user data: texts that quote
values are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ds_dagster.conditions import CONDITIONS
from ds_dagster.envelope import from_wire, to_wire
from ds_dagster.errors import DsError, error

SPARK_ERRORS = (PySparkException, Py4JError)
"""Exceptions of calls into Spark."""
ANY_ENTITIES = "the job's entities"
DETAIL_CHARACTERS = 600
_IN_CALLBACK = re.compile(r"pyspark\.errors\.exceptions\.\w+\.(\w+): \[([A-Z][A-Z0-9_.]+)\] ([^\n]*)")
_IN_JAVA = re.compile(r"((?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Fault))(?::\s*|\Z)(.*)", re.DOTALL)
_CAUSE_IN_TEXT = re.compile(
    r"^(?:Caused by)?: ((?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Fault))(?:: ([^\n]*))?$", re.M
)
_GATEWAY = re.compile(r"(?i)py4j")
_OF_GATEWAY = "py4j.protocol.Py4JJavaError: An error occurred while calling Spark"
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'")
_NAMED_VALUES = re.compile(r' for \w+ = ".*', re.DOTALL)
_PLAN = re.compile(r"\n=== Streaming Query ===|\nLogical Plan:|;\n'?[A-Z]\w+ ")


@dataclass(frozen=True, slots=True)
class Cause:
    """One exception of a chain: class (with package for Java), Spark's condition name or empty, text."""

    kind: str
    condition: str
    text: str


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One known failure.

    Attributes:
        name: our condition.
        kinds: pattern over class names, empty for any.
        conditions: pattern over Spark's condition names, empty for any.
        text: pattern over texts, empty for any.
        quotes_data: Spark's text holds values of the user's rows; only its first sentence without them is kept, as
            ``reason``.
    """

    name: str
    kinds: str = ""
    conditions: str = ""
    text: str = ""
    quotes_data: bool = False

    def matches(self, cause: Cause) -> bool:
        """Whether all its patterns are found."""
        pairs = ((self.kinds, cause.kind), (self.conditions, cause.condition), (self.text, cause.text))
        return all(re.search(pattern, text) for pattern, text in pairs if pattern)


JAVA_FORMAT_FAULTS = (
    r"Format(Conversion|Flags|Precision|Width|CodePoint|Argument|ArgumentIndex|FlagsConversionMismatch)Exception"
)
"""Exceptions of java.util.Formatter."""
COLLECTION_FAULTS = r"^(USER_RAISED_EXCEPTION|NULL_MAP_KEY|DUPLICATED_MAP_KEY|INVALID_INDEX_OF_ZERO)"
"""ELEMENT of several elements, keys of a MAP that are NULL or there twice, an index 0."""
RULES: tuple[FaultRule, ...] = (
    FaultRule("ENGINE_DISK_FULL", text=r"No space left on device|Disk quota exceeded"),
    FaultRule("OUT_OF_MEMORY", kinds=r"OutOfMemoryError|SparkOutOfMemoryError"),
    FaultRule("OUT_OF_MEMORY", text=r"java\.lang\.OutOfMemoryError|Java heap space"),
    FaultRule("BATCH_TOO_LARGE", text=r"spark\.driver\.maxResultSize"),
    FaultRule("SPARK_LOST", kinds=r"Py4JNetworkError|^builtins\.ConnectionRefusedError|^ConnectionRefusedError"),
    FaultRule("SPARK_LOST", text=r"Answer from Java side is empty|SparkContext was shut down|stopped SparkContext"),
    FaultRule("PYTHON_WORKER_SLOW", text=r"waiting for the Python worker to connect|Python worker failed to connect"),
    # data
    FaultRule(
        "VALUE_NOT_CONVERTIBLE", conditions=r"^(CAST_INVALID_INPUT|CAST_OVERFLOW|CANNOT_PARSE_)", quotes_data=True
    ),
    FaultRule(
        "VALUE_NOT_CONVERTIBLE", conditions=r"^(INVALID_VARIANT_CAST|CONVERSION_INVALID_INPUT)", quotes_data=True
    ),
    FaultRule(
        "ARITHMETIC_FAILED",
        conditions=r"^(ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|DIVIDE_BY_ZERO)",
        quotes_data=True,
    ),
    FaultRule(
        "ARITHMETIC_FAILED", conditions=r"^(REMAINDER_BY_ZERO|INTERVAL_ARITHMETIC_OVERFLOW|NUMERIC_)", quotes_data=True
    ),
    FaultRule("ARITHMETIC_FAILED", conditions=r"^(DATETIME_OVERFLOW|INTERVAL_DIVIDED_BY_ZERO)", quotes_data=True),
    FaultRule("ARITHMETIC_FAILED", conditions=COLLECTION_FAULTS, quotes_data=True),
    FaultRule("ARITHMETIC_FAILED", text=r"key array and value array of MapData must have the same length"),
    FaultRule(
        "PATTERN_INVALID",
        conditions=r"^(INVALID_DATETIME_PATTERN|INCONSISTENT_BEHAVIOR_CROSS_VERSION)",
        quotes_data=True,
    ),
    FaultRule("PATTERN_INVALID", kinds=r"PatternSyntaxException", quotes_data=True),
    FaultRule("PATTERN_INVALID", kinds=JAVA_FORMAT_FAULTS, quotes_data=True),
    FaultRule("PATTERN_INVALID", conditions=r"^INVALID_PARAMETER_VALUE\.(REGEX|PATTERN)", quotes_data=True),
    FaultRule("PATTERN_INVALID", conditions=r"^(INVALID_REGEXP_REPLACE|INVALID_FORMAT\.ESC_)", quotes_data=True),
    # checkpoints and state
    FaultRule("CHECKPOINT_IN_USE", conditions=r"^(CONCURRENT_STREAM_LOG_UPDATE|STREAMING_CONCURRENT|CONCURRENT_QUERY)"),
    FaultRule(
        "CHECKPOINT_IN_USE", text=r"Multiple streaming queries are concurrently using|Concurrent update to the log"
    ),
    FaultRule(
        "CHECKPOINT_INCOMPATIBLE", conditions=r"^(STATE_STORE_(KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_INVALID_)"
    ),
    FaultRule("CHECKPOINT_INCOMPATIBLE", conditions=r"^(STREAMING_STATEFUL_OPERATOR_NOT_MATCH|STATE_STORE_PROVIDER_)"),
    FaultRule("CHECKPOINT_INCOMPATIBLE", conditions=r"^(STREAMING_SOURCE_EVOLUTION|STATEFUL_PROCESSOR_)"),
    FaultRule(
        "CHECKPOINT_INCOMPATIBLE",
        conditions=r"^(STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY|CHECKPOINT_LOCATION_NOT_EMPTY)",
    ),
    FaultRule(
        "CHECKPOINT_INCOMPATIBLE",
        text=r"sources in the checkpoint offsets and now there are|key schema .* not compatible",
    ),
    FaultRule(
        "CHECKPOINT_UNREADABLE",
        conditions=r"^(CANNOT_LOAD_STATE_STORE|CANNOT_READ_STREAMING_STATE|FAILED_TO_COMMIT_STATE)",
    ),
    FaultRule(
        "CHECKPOINT_UNREADABLE", conditions=r"^(CANNOT_WRITE_STATE_STORE|CANNOT_CREATE_CHECKPOINT|CANNOT_RESTORE_)"
    ),
    FaultRule(
        "CHECKPOINT_UNREADABLE",
        conditions=r"^(MALFORMED_LOG_FILE|CHECKPOINT_FILE_CHECKSUM|ROCKSDB_)|OFFSET_LOG|COMMIT_LOG",
    ),
    FaultRule("CHECKPOINT_UNREADABLE", kinds=r"hadoop\.fs\.s3a\.|^software\.amazon\.awssdk\."),
    FaultRule("CHECKPOINT_UNREADABLE", text=r"batch \S+ doesn't exist|Failed to read log file"),
    # Kafka
    FaultRule("INPUT_LOST", conditions=r"^KAFKA_DATA_LOSS"),
    FaultRule("INPUT_LOST", kinds=r"OffsetOutOfRangeException"),
    FaultRule("INPUT_LOST", text=r"Some data may have been lost"),
    FaultRule(
        "KAFKA_TRANSACTION_FENCED", kinds=r"ProducerFencedException|InvalidProducerEpochException|FencedInstanceId"
    ),
    FaultRule(
        "KAFKA_LOGIN_REFUSED", kinds=r"kafka\S*\.(SaslAuthentication|SslAuthentication|Authentication|UnsupportedSasl)"
    ),
    FaultRule("KAFKA_NOT_ALLOWED", kinds=r"kafka\S*Authorization(Failed)?Exception|kafka\S*AuthorizerNotReady"),
    FaultRule("KAFKA_MSK_JAR_MISSING", text=r"(could not be found|nable to find).*software\.amazon\.msk"),
    FaultRule("KAFKA_MSK_JAR_MISSING", text=r"software\.amazon\.msk\.auth\.iam\S+ (could not be|not) found"),
    FaultRule(
        "KAFKA_CERTIFICATE_UNREADABLE", kinds=r"kafka\S*InvalidConfiguration", text=r"(?i)pem|keystore|truststore"
    ),
    FaultRule("INPUT_GONE", kinds=r"UnknownTopicOrPartition|UnknownTopicIdException|InvalidTopicException"),
    FaultRule("RECORD_TOO_LARGE", kinds=r"RecordTooLargeException|RecordBatchTooLargeException"),
    FaultRule(
        "KAFKA_UNREACHABLE", kinds=r"kafka\S*\.(Timeout|Disconnect|Network|BrokerNotAvailable|NotLeader|Coordinator)"
    ),
    FaultRule(
        "KAFKA_UNREACHABLE",
        text=r"No resolvable bootstrap urls|Timed out waiting for a node assignment|Failed to create new Kafka",
    ),
    # the rest of the network
    FaultRule("NETWORK_FAILED", kinds=r"^java\.net\.|ConnectException|SocketTimeoutException|UnknownHostException"),
    FaultRule(
        "NETWORK_FAILED", kinds=r"^(builtins\.)?(ConnectionError|ConnectionResetError|TimeoutError|BrokenPipeError)"
    ),
    FaultRule("PLAN_REFUSED_BY_SPARK", kinds=r"AnalysisException|ParseException"),
)
"""Known failures, most specific first; every cause of a chain is tried against one rule before the next rule."""


def classify(failure: BaseException, entities: str = ANY_ENTITIES) -> DsError:
    """Our condition for any exception of a query.

    Args:
        failure: from a Spark call, a streaming query, a data source or a loader.
        entities: sources and sinks of the query, ``store.entity`` with commas between them, for messages.
    """
    if isinstance(failure, DsError):
        return failure
    return _classified(list(_causes(failure)), entities)


def _classified(causes: list[Cause], entities: str = ANY_ENTITIES) -> DsError:
    text = "\n".join(cause.text for cause in causes)
    return _of_ours(text, entities) or _by_rules(causes, entities)


class BriefError(Exception):
    """See :func:`brief`."""


def brief(failure: BaseException) -> BriefError:
    """A failure of Spark for a function that the JVM has called: its envelope, and the innermost cause.

    The gateway passes on the tracebacks of a failure and of all its causes. When a query is stopped, Spark searches
    that text for a cancelled job, or for an interruption behind the gateway's own words, with a pattern that overflows
    the thread's stack at some thousand characters.
    """
    causes = list(_causes(failure))
    innermost = f"{causes[-1].kind}: {_trimmed(_first_lines(causes[-1].text))}"
    return BriefError(f"{to_wire(_classified(causes))}\n{_OF_GATEWAY}: {innermost}")


def _by_rules(causes: list[Cause], entities: str) -> DsError:
    for rule in RULES:
        for cause in causes:
            if rule.matches(cause):
                if rule.quotes_data:
                    return error(rule.name, reason=_reason(cause))
                return _failed(rule.name, _detail(causes, cause), entities)
    return error("SPARK_FAILED", detail=_detail(causes, causes[-1]))


def _failed(condition: str, detail: str, entities: str) -> DsError:
    """The error, with ``entities`` if its message shows them."""
    if "{entities}" in CONDITIONS[condition].message:
        return error(condition, detail=detail, entities=entities)
    return error(condition, detail=detail)


def _of_ours(text: str, entities: str) -> DsError | None:
    fault = from_wire(text)
    if fault is None:
        return None
    if "{entities}" in CONDITIONS[fault.condition].message:
        fault.params.setdefault("entities", entities)
    fault.detail = _trimmed(fault.detail)
    return fault


# --- the chain of causes ----------------------------------------------------------------------------------------------


def _causes(failure: BaseException) -> Iterator[Cause]:
    """Outermost first: the Python exceptions, then the Java exceptions that caused them."""
    current: BaseException | None = failure
    while current is not None:
        yield Cause(_class_of(current), _spark_condition(current), _without_plan(str(current)))
        yield from _spelled_out(str(current))
        yield from _causes_in(str(current))
        yield from _java_causes(getattr(current, "_origin", None) or getattr(current, "java_exception", None))
        current = current.__cause__ or getattr(current, "_cause", None)


def _class_of(failure: BaseException) -> str:
    return f"{type(failure).__module__}.{type(failure).__qualname__}"


def _spark_condition(failure: BaseException) -> str:
    return (failure.getCondition() or "") if isinstance(failure, PySparkException) else ""


def _java_causes(throwable: Any) -> Iterator[Cause]:
    depth = 0
    while throwable is not None and depth < 30:
        text = _without_plan(str(throwable.getMessage() or ""))
        yield Cause(throwable.getClass().getName(), _java_condition(throwable), text)
        yield from _causes_in(text)
        throwable, depth = throwable.getCause(), depth + 1


def _spelled_out(text: str) -> Iterator[Cause]:
    """A Java exception that PySpark has no class for: its text begins with the Java class."""
    match = _IN_JAVA.match(text)
    if match:
        yield Cause(match[1], "", _without_plan(match[2]))


def _causes_in(text: str) -> Iterator[Cause]:
    """Failures of Spark and Java inside the text of another failure, because they passed through a Python callback."""
    for match in _IN_CALLBACK.finditer(text):
        yield Cause("pyspark." + match[1], match[2], _without_plan(f"[{match[2]}] {match[3]}"))
    for match in _CAUSE_IN_TEXT.finditer(text):
        detail = match[2] or ""
        yield Cause(match[1], _condition_in(detail), _without_plan(detail))


def _without_plan(text: str) -> str:
    """The text without the plan that Spark appends: a plan quotes our failure texts and literals of the user's SQL."""
    return _PLAN.split(text, maxsplit=1)[0]


def _java_condition(throwable: Any) -> str:
    """Spark's condition name, in brackets at the beginning of the text; empty if there is none."""
    return _condition_in(str(throwable.getMessage() or ""))


def _condition_in(text: str) -> str:
    match = re.match(r"\[([A-Z][A-Z0-9_.]+)\]", text)
    return match[1] if match else ""


# --- texts ------------------------------------------------------------------------------------------------------------


def _detail(causes: list[Cause], best: Cause) -> str:
    """Class and text of the cause that matched a rule, and of the innermost cause. Exceptions of py4j are left out:
    their texts are tracebacks."""
    causes = [cause for cause in causes if not _GATEWAY.search(f"{cause.kind} {cause.text}")] or causes[-1:]
    innermost = causes[-1]
    best = best if best in causes else innermost
    shown = [best] if best is innermost else [best, innermost]
    return _trimmed("; ".join(f"{cause.kind.rsplit('.', 1)[-1]}: {_first_lines(cause.text)}" for cause in shown))


def _first_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " ".join(lines[:3])


def _trimmed(text: str) -> str:
    return text if len(text) <= DETAIL_CHARACTERS else text[: DETAIL_CHARACTERS - 1] + "…"


def _reason(cause: Cause) -> str:
    """Spark's first sentence without its values."""
    text = re.sub(r"^\[[A-Z0-9_.]+\] ?", "", cause.text.splitlines()[0] if cause.text else "")
    text = _NAMED_VALUES.sub("", text)
    sentence = text.split(". ", 1)[0].split(" SQLSTATE", 1)[0]
    return _trimmed(_QUOTED.sub("'…'", sentence).rstrip("."))
