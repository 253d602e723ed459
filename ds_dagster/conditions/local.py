"""Conditions of the machine the project runs on: Java, jars, node, local servers."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

_JAVA = (
    "install a Java runtime 17 or newer (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`) "
    "or point JAVA_HOME at one"
)

CONDITIONS: tuple[Condition, ...] = (
    Condition("JAVA_MISSING", "user", "no Java found: {searched}", _JAVA),
    Condition("JAVA_TOO_OLD", "user", "Java {found} at {path} is too old, {needed} or newer is needed", _JAVA),
    Condition(
        "PYSPARK_MISSING",
        "user",
        "PySpark is not installed in this environment",
        "install the package with its dependencies: `pip install ds-dagster`",
    ),
    Condition(
        "JAR_NOT_FOUND",
        "external",
        "the Maven repository does not have {coordinates}",
        "check the mirror that mvn (~/.m2/settings.xml) or Ivy (DS_IVY_SETTINGS names its settings file) uses",
    ),
    Condition(
        "JARS_FETCH_FAILED",
        "external",
        "the jars of {set_name} could not be fetched in {attempts} attempts",
        "check the network and proxy settings, then run `ds doctor`; what is fetched once works offline afterwards",
    ),
    Condition(
        "CLASS_ARCHIVE_FAILED",
        "external",
        "the archive of Spark's classes could not be made",
        "engines start without the archive too, some seconds slower; the detail has Java's message",
    ),
    Condition(
        "JAR_CHANGED",
        "external",
        "{coordinates} from the Maven repository is not the file that was locked",
        "the mirror serves another file: expected SHA-256 {expected}, got {found}; use another mirror",
    ),
    Condition("JAR_SET_UNKNOWN", "internal", "no set of jars is called {set_name}; known: {known}"),
    Condition(
        "OPERATOR_SOURCES_MISSING",
        "internal",
        "neither the operator jar nor its Java sources are in the package",
    ),
    Condition(
        "OPERATOR_BUILD_FAILED",
        "user",
        "the Java operators do not compile with {compiler}",
        "see the compiler's messages above; `ds doctor` shows the versions of Java and PySpark that were used",
    ),
    Condition(
        "LOCAL_SERVER_UNKNOWN",
        "user",
        "there is no local server called {name}",
        "known: {known}",
    ),
    Condition(
        "LOCAL_SERVER_FAILED",
        "external",
        "the local {name} server did not start: {reason}",
        "its log is {log}",
    ),
    Condition(
        "LOCAL_SERVER_NOT_STOPPED",
        "external",
        "the local {name} server (pid {pid}) could not be stopped",
        "end process {pid} by hand, then run `ds down` again",
    ),
    Condition(
        "LOCAL_PORT_TAKEN",
        "user",
        "port {port} of the local {name} server is used by another process",
        "end that process, or remove {file} so that `ds up` chooses other ports",
    ),
    Condition(
        "LOCAL_PORTS_EXHAUSTED",
        "external",
        "no free port between {first} and {last} for the local {name} server",
        "end programs that listen there",
    ),
    Condition(
        "LOCAL_STATE_BUSY",
        "external",
        "another `ds up` or `ds down` works on {folder} for more than {seconds} s",
        "wait for it to end and run the command again",
    ),
    Condition(
        "LOCAL_STATE_UNREADABLE",
        "user",
        "{file} cannot be read: {reason}",
        "correct or remove it; `ds up` rewrites it",
    ),
    Condition(
        "NODE_MISSING",
        "user",
        "the local Kinesis server needs node {needed} or newer with npm",
        "`pip install 'ds-dagster[local]'` brings one, or install nodejs and npm on the machine",
    ),
    Condition(
        "KINESIS_SERVER_INSTALL_FAILED",
        "external",
        "the local Kinesis server could not be installed with npm",
        "check the network and the registry npm uses (`npm config get registry`)",
    ),
    Condition(
        "SNOWFLAKE_SERVER_INSTALL_FAILED",
        "external",
        "the local stand-in for Snowflake could not be installed with pip",
        "check the network and the index pip uses (`pip config list`)",
    ),
    Condition(
        "POSTGRES_BINARIES_MISSING",
        "user",
        "the local Postgres server is not installed",
        "`pip install 'ds-dagster[local]'` brings it",
    ),
    Condition(
        "POSTGRES_DATA_OTHER_VERSION",
        "user",
        "the local Postgres data in {folder} was written by version {found}, this server is version {needed}",
        "move the folder away (the data in it is lost to this server) and run `ds up` again",
    ),
    Condition(
        "POSTGRES_PASSWORD_LOST",
        "user",
        "the password of the local Postgres data in {folder} is gone: {file} is missing",
        "put the file back, or move the data folder away and run `ds up` again",
    ),
    Condition(
        "LOCAL_PACKAGE_MISSING",
        "user",
        "the Python package {package} is not installed, the local {name} server needs it",
        "`pip install 'ds-dagster[local]'`",
    ),
)
