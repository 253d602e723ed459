"""Conditions of the topic: Spark clusters."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "CLUSTER_SETTING_REFUSED",
        "user",
        "{name} = {value} is not possible on a Spark cluster: {reason}",
        "remove it from [spark], or set it to {allowed}",
        "22023",
    ),
    Condition(
        "CLUSTER_NEEDS_SHARED_FOLDER",
        "user",
        "{what} is {folder}, which executors of {master} may not have on their hosts",
        "use a folder that all hosts mount at the same path, and name it in `shared_folders` of [engine]; checkpoints "
        "may be in a bucket instead ([checkpoints])",
        "22023",
    ),
    Condition(
        "CLUSTER_NEEDS_POSTGRES",
        "user",
        "the setting {name} is sqlite, whose file is in the state folder {folder}, and the hosts of a cluster share "
        "that folder: file locks cannot be trusted there",
        "set `{name}` to {allowed}",
        "22023",
    ),
    Condition(
        "CLUSTER_MASTER_SILENT",
        "unreachable",
        "no Spark master answers at {master}",
        "check host and port of `master` in [engine], and that a master of Spark {version} runs there: one of another "
        "version does not answer",
    ),
    Condition(
        "CLUSTER_ADDRESS_REFUSED",
        "user",
        "the engine cannot listen on the address {address}, which is not one of its host",
        'set "spark.driver.host" in [spark] to an address of the engine\'s host that executors reach; where it is '
        'translated on the way, also "spark.driver.bindAddress" = "0.0.0.0"',
        "22023",
    ),
    Condition(
        "CLUSTER_START_FAILED",
        "external",
        "Spark did not start on the cluster {master}",
        "see the detail, and the engine's log for the whole text",
    ),
    Condition(
        "CLUSTER_HAS_NO_EXECUTORS",
        "unreachable",
        "the cluster {master} started no executor for {seconds} s",
        "see the cluster's own page and logs: a worker needs free cores and memory (spark.executor.memory), Java, and "
        "a way to the driver (spark.driver.host)",
    ),
    Condition(
        "CLUSTER_FOLDER_MISSING",
        "external",
        "{host} does not see {folder} as the engine does",
        "mount it on that host at the same path, then start the engine again",
    ),
    Condition(
        "CLUSTER_BUCKET_UNREACHABLE",
        "external",
        "{host} does not see in {place} what the engine wrote there",
        "check that host's way to the bucket; without `access_key_id` in [checkpoints] the host needs credentials of "
        "its own: a role, or AWS variables of its Spark worker",
    ),
    Condition(
        "CLUSTER_VERSION_SKEW",
        "external",
        "{host} runs {theirs}, the engine {ours}",
        "install the engine's version on that host; take other jars of ds_dagster out of its Spark's `jars` and of "
        "`spark.executor.extraClassPath`",
    ),
    Condition(
        "CLUSTER_PYTHON_MISSING",
        "external",
        "{host} cannot run {python}, which this job needs",
        "install {needed} and pyarrow there at that path, or name another path in `spark.pyspark.python`",
    ),
    Condition(
        "CLUSTER_BATCH_TOO_LARGE",
        "user",
        "a batch for topic {topic} has more than {megabytes} MB of records, which a cluster sends through the driver",
        "set `kafka_writers` of [engine] to tasks, which then write to Kafka themselves; or `batch_megabytes` higher "
        "(the driver's `memory` too, by four times as much), and restart the engine; 'max.records.per.batch' bounds "
        "later batches",
    ),
)
