"""Conditions of the topic: Kinesis, Kafka, checkpoints, operators and failures inside Spark."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition("KINESIS_OPTION_INVALID", "user", "Kinesis option {name} has the value {value!r}", "allowed: {allowed}"),
    Condition("KINESIS_OPTION_UNKNOWN", "user", "unknown Kinesis option {name}", "did you mean {nearest}?"),
    Condition(
        "KINESIS_STREAM_NOT_FOUND",
        "user",
        "Kinesis stream {stream} does not exist in {place}",
        "create it with CREATE ENTITY, or correct the relation's 'topic' or the store's region",
    ),
    Condition(
        "KINESIS_CREDENTIALS_MISSING",
        "user",
        "no credentials for Kinesis in {place}",
        "set 'kinesis.access_key_id' and 'kinesis.secret_access_key' of the store by reference, or give "
        "the engine a role or profile",
    ),
    Condition(
        "KINESIS_ROLE_REFUSED",
        "user",
        "the role {role} cannot be assumed: {code}",
        "name the caller in the role's trust policy, with the external id it requires ('kinesis.external_id'), and "
        "allow the caller sts:AssumeRole",
    ),
    Condition(
        "KINESIS_CREDENTIALS_UNREACHABLE",
        "unreachable",
        "credentials for Kinesis in {place} could not be fetched",
        "check the network to AWS's security token service, or to the machine's metadata; the job retries",
    ),
    Condition(
        "KINESIS_ACCESS_DENIED",
        "user",
        "Kinesis in {place} denied {operation}: {code}",
        "check the keys, the session token, the clock of the engine's machine, and the account's policy",
    ),
    Condition(
        "KINESIS_THROTTLED",
        "unreachable",
        "Kinesis throttled {operation} on {stream} for {seconds} s without a success",
        "add shards, or lower the number of consumers; a shard takes 1000 records/s and gives 5 reads/s; the job "
        "retries",
    ),
    Condition(
        "KINESIS_UNREACHABLE",
        "unreachable",
        "Kinesis in {place} did not answer {operation} for {seconds} s",
        "check the endpoint, the network and the service's health; the job retries",
    ),
    Condition(
        "KINESIS_REFUSED",
        "external",
        "Kinesis refused {operation} on {stream}: {code}",
        "see the detail; the job retries",
    ),
    Condition(
        "KINESIS_RANGE_TRIMMED",
        "user",
        "{missing} of {expected} records of shard {shard} of stream {stream} between {after} and {until} are gone",
        "they passed the stream's retention before their batch was finished; `ds reset` starts a new "
        "checkpoint version",
    ),
    Condition(
        "KINESIS_POSITION_TRIMMED",
        "user",
        "records of shard {shard} of stream {stream} after {after} may be gone: the retention of {hours} h has passed",
        "run `ds reset`: a new checkpoint version starts at the oldest record that is left",
    ),
    Condition(
        "KINESIS_SHARD_GONE",
        "user",
        "shard {shard} of stream {stream} does not exist any more; records after {after} may be gone",
        "the stream was re-created or the shard's retention passed; `ds reset` starts a new checkpoint version",
    ),
    Condition(
        "KINESIS_POSITION_FOREIGN",
        "user",
        "the checkpoint's position {after} does not belong to shard {shard} of stream {stream}",
        "the stream was deleted and created again; `ds reset` starts a new checkpoint version",
    ),
    Condition(
        "KINESIS_RECORD_TOO_LARGE",
        "user",
        "a record of {size} bytes for stream {stream} is over the limit of {limit} bytes (partition key {key})",
        "select fewer or shorter columns, or raise the stream's limit, 10 MiB at most (UpdateMaxRecordSize)",
    ),
    Condition(
        "KINESIS_PARTITION_KEY_INVALID",
        "user",
        "a partition key for stream {stream} has {length} characters; Kinesis takes 1 to {limit}",
        "choose a shorter key",
    ),
    Condition(
        "KINESIS_SPOOL_FAILED",
        "external",
        "fetched records could not be kept in {folder}",
        "free disk space, or move the project's state folder; the job retries",
    ),
    Condition(
        "KINESIS_OFFSET_INVALID",
        "internal",
        "the checkpoint's offset of stream {stream} is not readable: {offset}",
        "please report this; `ds reset` starts a new checkpoint version",
    ),
    Condition(
        "OPERATOR_JAR_MISSING",
        "user",
        "the operators' jar is not on the class path of this Spark session",
        "start the session through the engine or `ds`, or put the jar that `ds doctor` shows on the "
        "driver's class path",
    ),
    Condition(
        "KAFKA_MARKER_UNREADABLE",
        "external",
        "the marker of the last batch could not be read from Kafka",
        "check the brokers, and that the user may describe and read the job's consumer group; the job retries",
    ),
    Condition(
        "KAFKA_TRANSACTION_FENCED",
        "external",
        "another owner of the job's transactional id has taken over",
        "make sure that one engine runs the job; the job retries from its checkpoint",
    ),
    Condition(
        "KAFKA_TRANSACTION_ZOMBIE",
        "external",
        "a task wrote for a transaction that is over",
        "the job retries from its checkpoint",
    ),
    Condition(
        "KAFKA_TRANSACTION_TIMEOUT",
        "user",
        "the broker allows no transaction of one minute",
        "raise the broker's transaction.max.timeout.ms, or set 'delivery' = 'at_least_once'",
    ),
    Condition(
        "KAFKA_BATCH_TOO_LONG",
        "external",
        "a batch for topic {topic} took {seconds} s, and the broker aborts its tasks' transactions after {limit} s",
        "nothing is written, the job retries; if it happens again, lower 'max.records.per.batch', add executors, or "
        "raise the broker's transaction.max.timeout.ms",
    ),
    Condition(
        "KAFKA_PREPARED_GONE",
        "user",
        "the last batch for topic {topic} was decided, but Kafka has aborted a transaction that holds rows of it; they "
        "are lost",
        "`ds reset` starts a new checkpoint version, which computes them again; it happens if an engine that is killed "
        "while it commits a batch stays away longer than the broker's transaction.max.timeout.ms, or if another "
        "program uses the job's transactional ids",
    ),
    Condition(
        "KAFKA_CLIENT_UNKNOWN",
        "user",
        "tasks cannot write to Kafka in two phases with kafka-clients {version}, only with {known}",
        'use the jars that `ds doctor` shows, or set `kafka_writers = "driver"` of [engine]',
    ),
    Condition(
        "KAFKA_WRITE_FAILED",
        "external",
        "a batch could not be written to Kafka",
        "see the detail; the job retries from its checkpoint",
    ),
    Condition(
        "KAFKA_SINK_COLUMNS", "internal", "the Kafka sink was given other columns than it takes", "please report this"
    ),
    Condition("KAFKA_SINK_OPTION", "internal", "the Kafka sink lacks an option", "please report this"),
    Condition("CLOCK_NOT_REGISTERED", "internal", "a query was built before its clock", "please report this"),
    Condition("CLOCK_JSON", "internal", "the clock was given a text that is not valid JSON", "please report this"),
    Condition(
        "SOURCE_NOT_WRAPPABLE", "internal", "a source cannot be read with the engine's clock", "please report this"
    ),
    Condition(
        "WEIGHT_NEGATIVE",
        "internal",
        "a row is retracted that was never added",
        "report it with the query and the plan of `ds explain`; `ds reset` computes everything again",
    ),
    Condition(
        "KEY_NOT_UNIQUE",
        "internal",
        "the key of the result is not unique",
        "report it with the query and the plan of `ds explain`",
    ),
    Condition(
        "AGGREGATE_OVERFLOW",
        "user",
        "the result of an aggregate is too large for its type",
        "CAST the argument to a larger type: DOUBLE, or DECIMAL with fewer digits after the point",
        "22003",
    ),
    Condition("OPERATOR_SETTINGS", "internal", "the settings of an operator cannot be read", "report it"),
    Condition(
        "STATE_TOO_LARGE",
        "user",
        "the rows that an operator keeps for one key do not fit into 2 GB",
        "group or join by more keys, or keep rows for a shorter time: a narrower WITHIN or frame, a smaller "
        "'source.allow.latency.millis', or 'state.ttl.millis'",
    ),
    Condition(
        "STATE_LAYOUT_UNKNOWN",
        "user",
        "the checkpoint's state was written by another version",
        "`ds reset` starts a new checkpoint version",
    ),
    Condition(
        "BAD_RECORD",
        "user",
        "record {position} of partition {partition} of {entity} cannot be read as {relation}: {reason}",
        "pass this record: `ds skip {job} --partition {partition} --offset '{position}'`; or all such records: WITH "
        "('source.deserialization.error.handling' = 'IGNORE') after the source, then `ds restart`, which keeps the "
        "query's state; or correct the relation's columns",
    ),
    Condition(
        "CONSTRAINT_VIOLATED",
        "user",
        "record {position} of partition {partition} of {entity} violates constraint {constraint} of {relation}",
        "pass this record: `ds skip {job} --partition {partition} --offset '{position}'`; or change ON VIOLATION FAIL "
        "to WARN, DROP or QUARANTINE, then `ds restart`, which keeps the query's state",
        "23514",
    ),
    Condition(
        "CONSTRAINT_VIOLATED_BY_GROUP",
        "user",
        "a row that was computed from several records violates constraint {constraint} of {relation}",
        "change ON VIOLATION FAIL to WARN, then `ds restart`, which keeps the query's state; or correct the query",
        "23514",
    ),
    Condition(
        "PRIMITIVE_TYPE_NOT_BUILT",
        "not_yet",
        "a record of {entity} cannot be one {type} alone",
        "use the format json, or one of VARCHAR, VARBINARY, BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT",
    ),
    Condition(
        "PRIMITIVE_NEEDS_ONE_COLUMN",
        "user",
        "a primitive record part of {entity} holds one column, not {columns}",
        "use the format json, or one column",
    ),
    Condition(
        "RECORD_KEY_TOO_LONG",
        "user",
        "a record's key for {entity} has {length} characters; the store takes {limit}",
        "choose a shorter key",
    ),
    Condition(
        "PLAN_NOT_STREAMABLE",
        "internal",
        "the plan asks Spark for {reason}",
        "please report this with the statement",
    ),
    Condition(
        "VALUE_NOT_CONVERTIBLE",
        "user",
        "a value cannot be converted: {reason}",
        "use TRY_CAST, which gives NULL, or filter such rows first",
    ),
    Condition(
        "ARITHMETIC_FAILED",
        "user",
        "a computation failed: {reason}",
        "guard it with CASE or NULLIF, or CAST to a wider type first",
    ),
    Condition(
        "PATTERN_INVALID",
        "user",
        "a pattern is not valid: {reason}",
        "see Java's DateTimeFormatter for times, java.util.regex for texts, java.util.Formatter for PRINTF",
    ),
    Condition(
        "INPUT_LOST",
        "user",
        "records that were not read yet are gone from {entities}",
        "they passed the source's retention, or it was created again; `ds reset` starts a new checkpoint version from "
        "the records that are left; to skip and count lost records, write 'source.data.loss' = skip after the source",
    ),
    Condition(
        "INPUT_RECREATED",
        "user",
        "{entity} was deleted and created again since the job read it",
        "`ds reset` starts a new checkpoint version, which reads the records that are there now",
    ),
    Condition(
        "INPUT_GONE",
        "external",
        "a topic or partition of {entities} does not exist",
        "create it again, or correct the relation; the job retries",
    ),
    Condition(
        "KAFKA_UNREACHABLE",
        "unreachable",
        "Kafka did not answer for {entities}",
        "check the brokers' addresses, the network and the brokers; the job retries",
    ),
    Condition(
        "KAFKA_LOGIN_REFUSED",
        "user",
        "Kafka refused the login for {entities}",
        "check the store's 'kafka.sasl.*' and 'tls.*' properties, and that the references they name are "
        "set where the engine runs",
    ),
    Condition(
        "KAFKA_MSK_JAR_MISSING",
        "user",
        "the login AWS_MSK_IAM needs a jar that is not on the engine's class path",
        "download software.amazon.msk:aws-msk-iam-auth (the jar that ends in -all.jar) and name it in "
        '[tool.ds-dagster.spark] "spark.jars"; or log in with SHA512',
    ),
    Condition(
        "KAFKA_CERTIFICATE_UNREADABLE",
        "user",
        "a certificate or key of {entities} cannot be read",
        "'tls.ca_cert_file', 'tls.client.cert_file' and 'tls.client.key_file' have to be PEM, the key in PKCS #8 "
        "(openssl pkcs8 -topk8) and opened by 'tls.client.key_password' if it is locked",
    ),
    Condition(
        "KAFKA_NOT_ALLOWED",
        "user",
        "Kafka does not allow what the job needs on {entities}",
        "grant the store's user read on the topics it reads, write on those it writes, read on the consumer groups and "
        "write on the transactional ids that begin with the environment's name (see Kafka in the guide)",
    ),
    Condition(
        "RECORD_TOO_LARGE",
        "user",
        "a record is larger than Kafka takes",
        "select fewer or shorter columns; a record may have a megabyte",
    ),
    Condition(
        "CHECKPOINT_INCOMPATIBLE",
        "user",
        "the checkpoint was made by another query",
        "`ds reset` starts a new checkpoint version",
    ),
    Condition(
        "CHECKPOINT_OTHER_GROUPS",
        "user",
        "the groups in the checkpoint have another state than the query",
        "`ds reset` starts a new checkpoint version",
    ),
    Condition(
        "CHECKPOINT_UNREADABLE",
        "external",
        "the checkpoint cannot be read or written",
        "check the disk of the state folder, or the bucket of [checkpoints]; the job retries, and `ds reset` starts a "
        "new checkpoint version",
    ),
    Condition(
        "CHECKPOINT_IN_USE",
        "external",
        "another query works on the checkpoint",
        "make sure that one engine runs the job; the job retries",
    ),
    Condition("ENGINE_DISK_FULL", "external", "no space is left on the engine's disk", "free space; the job retries"),
    Condition(
        "OUT_OF_MEMORY",
        "external",
        "the engine ran out of memory",
        "raise [tool.ds-dagster.engine] memory, or set 'max.records.per.batch'; the job retries",
    ),
    Condition(
        "BATCH_TOO_LARGE",
        "user",
        "the rows of one batch are more than the driver may collect",
        "set 'max.records.per.batch', or raise spark.driver.maxResultSize",
    ),
    Condition(
        "SPARK_LOST",
        "external",
        "the engine's JVM is gone",
        "the engine restarts automatically; its log says why the JVM ended",
    ),
    Condition(
        "NETWORK_FAILED",
        "unreachable",
        "a connection of the job failed",
        "check that the store's server runs and can be reached from the engine; the job retries",
    ),
    Condition(
        "PYTHON_WORKER_SLOW",
        "busy",
        "a Python process that Spark needs to read the job's source did not start within ten seconds",
        "the machine is busy: run fewer jobs at once or give the engine more cores; the job retries",
    ),
    Condition("PLAN_REFUSED_BY_SPARK", "internal", "Spark refused the plan", "please report this with the statement"),
    Condition("SPARK_FAILED", "internal", "Spark failed", "see the detail and the job's log; the job retries"),
)
