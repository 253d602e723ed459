"""Settings of a project: ``[tool.ds-dagster]`` in pyproject.toml, or ds.toml without that prefix.

Order of precedence, last wins: defaults, file, ``DS_…`` environment variables, arguments. The overlay of local servers
(``.ds/local.toml``, or the file ``DS_PROFILE`` names) changes store properties only and is kept apart.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ds_dagster.errors import error
from ds_dagster.names import did_you_mean, is_address
from ds_dagster.places.checkpoint_settings import IN_STATE_FOLDER, CheckpointSettings, read_checkpoints

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MEMORY = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)
"""Memory as Spark and Java read it: no fraction, and a unit."""
MEMORY_FORM = "a whole number and m or g, as in 512m or 2g"
"""The form of :data:`MEMORY` in messages."""
COUNTS_OF_SPARK = frozenset(
    {"spark.sql.shuffle.partitions", "spark.executor.instances", "spark.executor.cores", "spark.cores.max"}
)
"""Properties that plans and sizes are computed from."""
NO_FILE = "(defaults)"
"""Name of the settings file of a folder without any."""
OF_THE_ENGINE = {"spark.master": "master", "spark.driver.memory": "memory"}
"""Property of Spark → setting of [engine] that sets it, and from which checks, pools and sizes are computed."""
_MASTER = re.compile(
    r"local(-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?"
    r"|spark://[^\s/,]+:\d+(,[^\s/,]+:\d+)*|yarn|k8s://\S+"
)
KAFKA_WRITERS = ("tasks", "driver")
"""Values of ``engine.kafka_writers``; the first is the default."""
_MASTER_FORMS = "local[4], spark://host:port, yarn, k8s://https://host:port"
_ON_THIS_HOST = r"local|spark://(127(\.\d+){3}|localhost|\[::1\]):"
"""Beginning of a Spark master URL whose executors all run on the driver's host."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The process that hosts jobs.

    Attributes:
        launcher: ``local`` (the command line and Dagster start the engine on this machine when it is gone) or
            ``external`` (it is started elsewhere; they report it when it is not running).
        cores: Spark slots of the local master.
        memory: heap of the Spark driver, as ``512m`` or ``2g``.
        master: Spark master URL; empty for ``local[cores]``.
        durable: checkpoints are forced to the engine's disk (fsync), so that a power failure loses nothing. False: jobs
            may have to be reset after a power failure.
        shared_folders: on a cluster: folders that every host mounts at the same path; ``state`` has to be inside one if
            checkpoints are in it.
        kafka_writers: on a cluster: who writes to exactly-once Kafka sinks. ``tasks``: each task sends its records in a
            transaction of its own, committed in two phases. ``driver``: all records go through the driver, which sends
            them in one transaction.
        batch_megabytes: on a cluster with ``kafka_writers = "driver"``: most megabytes of records that one batch of an
            exactly-once Kafka sink sends through the driver; a larger batch fails.
        log_url: address under which people read the state folder's ``logs``, as ``https://logs.example.com/web``;
            Dagster, ``ds ps`` and DESCRIBE QUERY link to it. Empty: they show the file's path on the engine's machine.
    """

    launcher: str = "local"
    cores: int = 2
    memory: str = "1g"
    master: str = ""
    durable: bool = True
    shared_folders: tuple[str, ...] = ()
    kafka_writers: str = "tasks"
    batch_megabytes: int = 64
    log_url: str = ""

    @property
    def is_cluster(self) -> bool:
        """Whether executors are other processes than the driver."""
        return not is_local(self.master or "local")

    @property
    def has_other_hosts(self) -> bool:
        """Whether executors may run on other hosts than the driver: all clusters but those whose master listens on
        the loopback interface, which workers of other hosts cannot reach."""
        return self.is_cluster and re.match(_ON_THIS_HOST, self.master) is None

    def shares(self, folder: Path) -> bool:
        """Whether executors read the same files in a folder as the driver."""
        return not self.has_other_hosts or any(folder.is_relative_to(shared) for shared in self.shared_folders)


def is_local(master: str) -> bool:
    """Whether the driver and the executors of a Spark master are one process."""
    return master.startswith("local") and not master.startswith("local-cluster")


@dataclass(frozen=True, slots=True)
class Overlay:
    """Store properties that replace the written ones: by folded store name, then by kind for stores it does not name.

    ``path`` is shown by every command while it is in force; empty when there is none. A value is a text, number or
    boolean, or a reference ``{env = "NAME"}`` / ``{file = "path relative to the state folder"}``.
    """

    path: str = ""
    stores: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    kinds: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a project; paths are absolute.

    Attributes:
        root: the project's folder.
        sql: folder of statements.
        state: journal, checkpoints (unless ``[checkpoints]`` names a bucket), views, logs, pid files; on a local disk.
        database: default database of names without one.
        schema: default schema of names without one.
        store: store of a CREATE … AS without ``'store'``; a ``USE STORE`` in a file overrides it.
        views: where materialized views are kept: ``sqlite`` or the name of a declared Postgres store.
        journal: ``sqlite``, a Postgres URL, or a ``${NAME}`` reference to one.
        environment: part of every job's identity, so that one cluster can hold several (``dev``, ``prod``).
        engine: see :class:`EngineSettings`.
        checkpoints: see :class:`ds_dagster.places.checkpoint_settings.CheckpointSettings`.
        spark: any Spark property.
        overlay: store properties that replace those of CREATE STORE.
        file: name of the settings file, for messages; ``(defaults)`` without a file.
        store_values: folded store name → property → text that replaces the text in CREATE STORE (a user's Dagster
            resource): ``${NAME}`` references, or values that are not secret. The overlay is applied after them.
        source_names: qualified relation → name of this source in the checkpoint, where the relation was renamed since.
            Set for one job, never for a project.
        ordered_state: aggregates store their results in the order of the plan; False: in Spark's order, as checkpoints
            of earlier versions do. Set for one job, never for a project.
        pool: compute pool whose engine this process is or looks at, with its cores and memory in ``engine``; empty: the
            project's own engine. Set for one engine, never for a project.
    """

    root: Path
    sql: Path
    state: Path
    database: str = "default"
    schema: str = "public"
    store: str = ""
    views: str = "sqlite"
    journal: str = "sqlite"
    environment: str = "dev"
    engine: EngineSettings = EngineSettings()
    checkpoints: CheckpointSettings = IN_STATE_FOLDER
    spark: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    overlay: Overlay = Overlay()
    file: str = ""
    store_values: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    source_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ordered_state: bool = True
    pool: str = ""


_TEXT = ("database", "schema", "store", "views", "journal", "environment")
_PATHS = {"sql": "sql", "state": ".ds"}
_SECTIONS = ("engine", "checkpoints", "spark")
_KNOWN = (*_TEXT, *_PATHS, *_SECTIONS)


def find_project(start: Path) -> Path:
    """The nearest folder upward that holds settings.

    Raises:
        UserError: PROJECT_NOT_FOUND.
    """
    for folder in (start, *start.parents):
        if _table(folder) is not None:
            return folder
    raise error("PROJECT_NOT_FOUND", folder=str(start))


def load_settings(root: Path, **overrides: object) -> Settings:
    """Read a project's settings. A folder without any file gets the defaults.

    Args:
        root: the project's folder.
        overrides: values that win over file and environment (``state=Path(…)``, ``store="x"``).

    Raises:
        UserError: SETTING_INVALID, SETTING_UNKNOWN.
    """
    root = root.resolve()
    file_table = _table(root)
    name, table = file_table if file_table else (NO_FILE, {})
    for key in table:
        if key not in _KNOWN:
            raise error("SETTING_UNKNOWN", name=key, file=name, nearest=did_you_mean(key, _KNOWN))
    values: dict[str, Any] = {key: _text_setting(table, key, name) for key in _TEXT if key in table}
    values |= {key: os.environ[f"DS_{key.upper()}"] for key in _TEXT if f"DS_{key.upper()}" in os.environ}
    for key, default in _PATHS.items():
        written = os.environ.get(f"DS_{key.upper()}", _text_setting(table, key, name) if key in table else default)
        values[key] = (root / _checked_path(written, key, name)).resolve()
    settings = Settings(
        root=root,
        engine=_engine(table.get("engine", {}), name),
        checkpoints=read_checkpoints(table.get("checkpoints", {}), name),
        spark=_spark(table.get("spark", {}), name),
        file=name,
        **values,
    )
    settings = replace(settings, **{k: v for k, v in overrides.items() if v is not None})  # type: ignore[arg-type]
    return replace(settings, overlay=load_overlay(settings))


def load_overlay(settings: Settings) -> Overlay:
    """The overlay in force: the file ``DS_PROFILE`` names (``none`` = no overlay), else ``local.toml`` of the state
    folder, else an empty one.

    Raises:
        UserError: SETTING_INVALID: the file ``DS_PROFILE`` names is missing, or a file is not valid TOML.
    """
    profile = os.environ.get("DS_PROFILE", "")
    if profile == "none":
        return Overlay()
    path = (settings.root / profile) if profile else settings.state / "local.toml"
    if not path.is_file():
        if profile:
            raise error(
                "SETTING_INVALID",
                name="DS_PROFILE",
                file=str(path),
                reason="no such file",
                allowed="a TOML file or none",
            )
        return Overlay()
    table = _read(path)
    return Overlay(path=str(path), stores=table.get("stores", {}), kinds=table.get("kinds", {}))


def _table(folder: Path) -> tuple[str, Mapping[str, Any]] | None:
    single = folder / "ds.toml"
    if single.is_file():
        return "ds.toml", _read(single)
    project = folder / "pyproject.toml"
    if project.is_file():
        table = _read(project).get("tool", {}).get("ds-dagster")
        if table is not None:
            return "pyproject.toml", table
    return None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return toml_table(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise error("SETTING_INVALID", name="(file)", file=str(path), reason=str(problem), allowed="TOML") from problem


@lru_cache(maxsize=8)
def toml_table(text: str) -> Mapping[str, Any]:
    """Parse a TOML text; cached, since many test cases of a process are in one project. Raises: ValueError."""
    return tomllib.loads(text)


def _text_setting(table: Mapping[str, Any], key: str, file: str) -> str:
    if not isinstance(table[key], str):
        raise error("SETTING_INVALID", name=key, file=file, reason="not a text", allowed="a text in quotes")
    return str(table[key])


def _checked_path(text: str, key: str, file: str) -> str:
    if is_address(text):
        allowed = "a folder of this machine's file system; a bucket for checkpoints is `url` of [checkpoints]"
        raise error("SETTING_INVALID", name=key, file=file, reason=text, allowed=allowed)
    return text


def _engine(table: Any, file: str) -> EngineSettings:
    if not isinstance(table, dict):
        raise error("SETTING_INVALID", name="engine", file=file, reason="not a table", allowed="[engine] with keys")
    for key in table:
        if key not in EngineSettings.__slots__:
            names = EngineSettings.__slots__
            raise error("SETTING_UNKNOWN", name=f"engine.{key}", file=file, nearest=did_you_mean(key, names))
    for name in ("cores", "batch_megabytes"):
        number = table.get(name, 1)
        if type(number) is not int or number < 1:
            raise error(
                "SETTING_INVALID", name=f"engine.{name}", file=file, reason=str(number), allowed="a whole number ≥ 1"
            )
    for name, default in (("master", ""), ("launcher", "local")):
        _text_setting({name: default, **table}, name, file)
    writers = table.get("kafka_writers", KAFKA_WRITERS[0])
    if writers not in KAFKA_WRITERS:
        allowed = ", ".join(KAFKA_WRITERS)
        raise error("SETTING_INVALID", name="engine.kafka_writers", file=file, reason=str(writers), allowed=allowed)
    master = table.get("master", "")
    if master and not _MASTER.fullmatch(master):
        raise error("SETTING_INVALID", name="engine.master", file=file, reason=master, allowed=_MASTER_FORMS)
    memory = table.get("memory", "1g")
    if not (isinstance(memory, str) and MEMORY.fullmatch(memory)):
        raise error("SETTING_INVALID", name="engine.memory", file=file, reason=str(memory), allowed=MEMORY_FORM)
    durable = table.get("durable", True)
    if type(durable) is not bool:
        raise error("SETTING_INVALID", name="engine.durable", file=file, reason=str(durable), allowed="true, false")
    url = table.get("log_url", "")
    if url != "" and not (isinstance(url, str) and url.startswith(("http://", "https://"))):
        allowed = "an address that begins with http:// or https://"
        raise error("SETTING_INVALID", name="engine.log_url", file=file, reason=str(url), allowed=allowed)
    engine = EngineSettings(**{**table, "shared_folders": _shared_folders(table, file)})
    if engine.launcher not in ("local", "external"):
        raise error(
            "SETTING_INVALID", name="engine.launcher", file=file, reason=engine.launcher, allowed="local, external"
        )
    return engine


def _shared_folders(table: Mapping[str, Any], file: str) -> tuple[str, ...]:
    folders = table.get("shared_folders", [])
    if not isinstance(folders, list) or not all(isinstance(path, str) and Path(path).is_absolute() for path in folders):
        allowed = 'a list of absolute paths: ["/mnt/ds"]'
        raise error("SETTING_INVALID", name="engine.shared_folders", file=file, reason=str(folders), allowed=allowed)
    return tuple(str(Path(path).resolve()) for path in folders)


def _spark(table: Any, file: str) -> Mapping[str, str]:
    if not isinstance(table, dict):
        allowed = "[spark] with properties of Spark"
        raise error("SETTING_INVALID", name="spark", file=file, reason="not a table", allowed=allowed)
    properties = {name: _spark_text(value) for name, value in _flatten(table).items()}
    for name in OF_THE_ENGINE.keys() & properties.keys():
        reason, allowed = "the engine sets it", f"`{OF_THE_ENGINE[name]}` of [engine] instead"
        raise error("SETTING_INVALID", name=name, file=file, reason=reason, allowed=allowed)
    for name in COUNTS_OF_SPARK & properties.keys():
        if not (properties[name].isdecimal() and int(properties[name])):
            allowed = "a whole number ≥ 1"
            raise error("SETTING_INVALID", name=name, file=file, reason=properties[name], allowed=allowed)
    return MappingProxyType(properties)


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _spark_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
