"""A project in a folder, views written by the real loader, and the command line as a function."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ds_dagster.catalog.io_spec import SinkIdentity
from ds_dagster.cli.main import run
from ds_dagster.names import QualifiedName
from ds_dagster.project.load import LoadedProject, kind_of_store, load_project
from ds_dagster.stores.sqlite.loader import DELETED, open_loader
from tests.driven import Driven

SQL = """
CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STORE warehouse WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://127.0.0.1:1/db', 'postgres.username' = 'u',
  'postgres.password' = '${PASSWORD:-none}');
CREATE STREAM clicks (at TIMESTAMP_LTZ(3), url VARCHAR, device VARCHAR, userid VARCHAR, price DECIMAL(10,2),
  paid BOOLEAN, tags ARRAY<VARCHAR>, place STRUCT<city VARCHAR, zip INTEGER>)
  WITH ('store' = 'kafka', 'topic' = 'clicks', 'value.format' = 'json', 'topic.partitions' = 1, 'topic.replicas' = 1);
CREATE CHANGELOG users (userid VARCHAR, region VARCHAR, age INTEGER, PRIMARY KEY (userid))
  WITH ('store' = 'kafka', 'topic' = 'users_topic', 'value.format' = 'json', 'topic.partitions' = 1);
CREATE MATERIALIZED VIEW visits AS SELECT url, device, count(*) AS n FROM clicks GROUP BY url, device;
CREATE MATERIALIZED VIEW paid AS SELECT userid, sum(price) AS total, max(at) AS latest FROM clicks GROUP BY userid;
CREATE MATERIALIZED VIEW log AS SELECT at, url, price, paid, device AS "Device" FROM clicks;
CREATE MATERIALIZED VIEW recent WITH ('retention.millis' = 3600000) AS
  SELECT url, count(*) AS n FROM clicks GROUP BY url;
CREATE TABLE orders WITH ('store' = 'warehouse') AS SELECT url, price FROM clicks;
"""
SETTINGS = """
database = "d"
store = "kafka"
"""


@dataclass
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return list(self.json["rows"])

    @property
    def conditions(self) -> list[str]:
        return [diagnostic["condition"] for diagnostic in self.json["diagnostics"]]


Ds = Callable[..., Outcome]


def called(project: Path, *words: str) -> Outcome:
    """A command in this process: a second of processor time less than in one of its own."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*words, "--project", str(project)])
    return Outcome(code, out.getvalue(), err.getvalue())


def called_json(project: Path, *words: str) -> tuple[int, Any, str]:
    """Exit code, JSON (an empty object where it prints none) and all that a command prints, in this process."""
    done = called(project, *words, "--json")
    return done.code, json.loads(done.out or "{}"), done.out + done.err


def in_a_process(project: Path, *words: str) -> Outcome:
    """A command as a shell starts it in a folder."""
    command = [sys.executable, "-c", "from ds_dagster.cli.main import main; main()", *words]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=600)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "all.sql").write_text(SQL)
    (tmp_path / "ds.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def ds(project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ds:
    monkeypatch.chdir(project)

    def call(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = run(list(arguments))
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return call


@pytest.fixture
def session_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that end their Spark session leave the one of this process to the tests behind them."""
    monkeypatch.setattr("ds_dagster.testing.session.end_session", lambda: None)


@dataclass
class ViewWriter:
    """Writes batches into views as a job does."""

    project: LoadedProject
    version: int = 1
    batches: Counter[tuple[str, int]] = field(default_factory=Counter)

    def loader(self, view: str) -> Driven:
        relation = self.project.catalog.relation(QualifiedName("d", "public", view))
        store = self.project.catalog.store(relation.store)
        spec = kind_of_store(self.project, relation).write_spec(store, relation, "continuous")
        loader = Driven(open_loader(spec, SinkIdentity(f"dev.{view}", self.version), lambda value: str(value.value)))
        loader.prepare()
        return loader

    def write(self, view: str, columns: Mapping[str, Sequence[Any]]) -> None:
        loader = self.loader(view)
        rows = pa.table(dict(columns))
        if loader.target.mode == "upsert" and DELETED not in columns:
            rows = rows.append_column(DELETED, pa.array([False] * rows.num_rows))
        loader.load(rows, self.batches[view, self.version])
        self.batches[view, self.version] += 1
        loader.close()


@pytest.fixture
def views(project: Path) -> ViewWriter:
    return ViewWriter(load_project(project, strict=True))
