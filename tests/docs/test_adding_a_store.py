"""The page about adding a kind of store, followed to the letter: installed as a package, checked, run, looked at."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.spark  # processes of their own
PAGE = "docs/how-to/add-a-store.md"
PROGRAM = """
import contextlib, io, json, sys
from ds_dagster.cli.main import run
printed = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        run(arguments)
    printed.append(output.getvalue())
print(json.dumps(printed))
"""
STEP = ROOT / "tests" / "engine" / "step_process.py"
VISITS = [{"url": url, "userid": f"u{n}"} for n, url in enumerate(["/home", "/x", "/home", "/home", "/y"])]


def block(language: str) -> str:
    (found,) = (one.text for one in blocks(language) if one.page == PAGE)
    return found


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The page's package as an installer leaves it: module and metadata with the entry point."""
    site = tmp_path / "site"
    project = tomllib.loads(block("toml"))["project"]
    ((group, points),) = project["entry-points"].items()
    ((name, value),) = points.items()
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    (site / f"{value.partition(':')[0]}.py").write_text(block("python"))
    return site


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "sql").mkdir(parents=True)
    (root / "ds.toml").write_text('store = "files"\n[spark]\n"spark.ui.enabled" = "false"\n')
    (root / "sql" / "lines.sql").write_text(block("sql"))
    (tmp_path / "lines" / "visits").mkdir(parents=True)
    (root / ".env").write_text(f"LINE_FILES={tmp_path / 'lines'}\n")
    return root


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=240
    )


def outputs(installed: Path, *commands: Sequence[str]) -> list[str]:
    """What commands print, one after the other in one process."""
    done = run(installed, "-c", PROGRAM, json.dumps(commands))
    assert done.returncode == 0, done.stderr[-3000:]
    return list(json.loads(done.stdout))


def test_commands_know_the_new_kind_and_its_properties_belong_to_it_alone(
    installed: Path, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "lines" / "visits" / "a.txt").write_text('{"url": "/home"}\n{"url": "/x"}\n')
    other = shutil.copytree(project, tmp_path / "other")
    wrong = "CREATE STORE other WITH ('type' = DELTA, 'uris' = 'file:///x', 'json_lines.suffix' = 'x');"
    (other / "sql" / "wrong.sql").write_text(wrong)
    checked, printed, examined, refused = outputs(
        installed,
        ["check", "--project", str(project), "--json"],
        ["print", "--project", str(project), "visits", "--from-beginning", "--limit", "9"],
        ["doctor", "--project", str(project), "--online", "--json"],
        ["check", "--project", str(other), "--json"],
    )
    assert json.loads(checked)["ok"], checked
    assert {one["kind"] for one in json.loads(checked)["relations"]} == {"stream", "table"}
    assert [line.split()[-1] for line in printed.splitlines()] == ["VALUE", '{"url":"/home"}', '{"url":"/x"}']
    (fact,) = (one for one in json.loads(examined)["facts"] if one["name"] == "store files")
    assert fact["ok"], fact
    found = json.loads(refused)["diagnostics"]
    assert [one["condition"] for one in found] == ["PROPERTY_OF_OTHER_STORE"]


@pytest.mark.slow
def test_a_pipeline_runs_through_it(installed: Path, project: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    source = lines / "visits"
    source.joinpath("a.txt").write_text("".join(json.dumps(row) + "\n" for row in VISITS))
    source.joinpath("ignored.jsonl").write_text('{"url": "/home", "userid": "other ending"}\n')
    for loaded, more in ((3, ()), (1, ({"url": "/home", "userid": "late"},))):
        for row in more:
            source.joinpath("b.txt").write_text(json.dumps(row) + "\n")
        done = run(installed, str(STEP), str(project), "home_visits")
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout.splitlines()[-1])["rows"] == loaded
    rows = [
        json.loads(line) for path in (lines / "home_visits").glob("*.txt") for line in path.read_text().splitlines()
    ]
    wanted = [{"userid": row["userid"], "url": "/home"} for row in VISITS if row["url"] == "/home"]
    assert sorted(rows, key=str) == sorted([*wanted, {"userid": "late", "url": "/home"}], key=str)
