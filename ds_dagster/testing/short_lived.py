"""Java options of drivers in tests: they end before an optimizing compiler pays off."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ds_dagster.settings import EngineSettings

JAVA_OPTIONS = " ".join(
    (
        # half the processor time; but without the second compiler, Java reserves a fifth of the code cache only, and
        # discards compiled code as soon as the cache is full: so the next option sets the usual size
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=240m",
        # as Java has it: an engine waits longer (ds_dagster.spark.session.QUICK_START), hundreds of small queries are
        # a tenth slower then
        "-XX:Tier3InvocationThreshold=200 -XX:Tier3MinInvocationThreshold=100 -XX:Tier3CompileThreshold=2000",
        "-XX:+UseSerialGC",
        # the classes of a driver outgrow the default size several times, each time with a full collection
        "-XX:MetaspaceSize=256m",
    )
)
SESSION_HEAP = "2g"
SESSION_OPTIONS = f"-Duser.timezone=UTC {JAVA_OPTIONS} -Xmn768m"
"""Options for a session with :data:`SESSION_HEAP` that runs hundreds of small queries. Nearly all objects of their
batches are garbage: with Java's default young generation, a third of the heap, collecting it takes a tenth of the
processor time."""
MASTER = "DS_TEST_MASTER"
"""Environment variable: the Spark master of such sessions, ``local-cluster[2,1,1024]`` for separate executors."""
_EXECUTORS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.instances": "2",
    "spark.executor.memory": "768m",
    "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {JAVA_OPTIONS}",
}


def session_engine() -> EngineSettings:
    """Engine of a session in which tests run: two local cores unless :data:`MASTER` names a Spark master."""
    return EngineSettings(cores=2, memory=SESSION_HEAP, durable=False, master=os.environ.get(MASTER, ""))


def session_properties() -> Mapping[str, str]:
    """Spark properties of such a session."""
    of_executors = _EXECUTORS if session_engine().is_cluster else {}
    return {"spark.driver.extraJavaOptions": SESSION_OPTIONS, **of_executors}
