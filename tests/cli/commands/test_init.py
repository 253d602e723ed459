"""A fresh project: it compiles, Dagster loads it, nothing of the user's is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ds_dagster.local.template import CI, write_project

FILES = {
    "ds.toml", "sql/stores.sql", "sql/orders.sql", "tests/orders.case.yaml", ".gitignore", ".env.example",
    "definitions.py", "workspace.yaml", "dagster.yaml",
}  # fmt: skip


def test_everything_is_written_and_listed(ds, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    found = ds("init", str(folder), "--json")
    assert found.code == 0, found.err
    assert {str(Path(path).relative_to(folder)) for path in found.json["files"]} == FILES
    assert all((folder / name).is_file() for name in FILES)


def test_what_comes_next_starts_in_the_new_folder(ds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ds("init", "new").err.strip() == "ds: next: cd new, ds check, ds test, ds up, dg dev -w workspace.yaml"
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert ds("init").err.strip() == "ds: next: ds check, ds test, ds up, dg dev -w workspace.yaml"


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    """``ds ls | head -1`` in a real process: its pipe is closed before anything is written."""
    write_project(tmp_path)
    ours, theirs = os.pipe()
    os.close(ours)
    code = "import sys; from ds_dagster.cli.main import main; main()"
    command = [sys.executable, "-c", code, "ls", "--project", str(tmp_path)]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


def test_fresh_project_compiles_without_a_word(ds, tmp_path: Path) -> None:
    ds("init", str(tmp_path / "new"))
    found = ds("check", "--project", str(tmp_path / "new"), "--json")
    assert found.code == 0
    assert found.json["diagnostics"] == []


def test_component_gets_it_without_dagster_files(tmp_path: Path) -> None:
    written = {str(path.relative_to(tmp_path)) for path in write_project(tmp_path, with_dagster=False)}
    assert written == FILES - {"definitions.py", "workspace.yaml", "dagster.yaml"}


def test_a_second_time_is_refused_and_changes_nothing(ds, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    ds("init", str(folder))
    (folder / "ds.toml").write_text("# mine\n")
    (folder / "definitions.py").unlink()
    found = ds("init", str(folder), "--json")
    assert found.code == 1
    assert found.conditions == ["FOLDER_NOT_EMPTY"]
    assert (folder / "ds.toml").read_text() == "# mine\n"
    assert not (folder / "definitions.py").exists()


def test_other_files_and_a_gitignore_stay(ds, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".gitignore").write_text("mine\n")
    assert ds("init", str(tmp_path / "new")).code == 0
    assert (tmp_path / "new" / ".gitignore").read_text() == "mine\n"


def test_folder_that_cannot_be_written(ds, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = ds("init", str(tmp_path / "file" / "new"), "--json")
    assert (found.code, found.conditions) == (1, ["FOLDER_NOT_WRITABLE"])


@pytest.mark.servers
def test_dagster_validates_it(tmp_path: Path) -> None:
    write_project(tmp_path)
    environment = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spark
@pytest.mark.usefixtures("session_stays")
def test_its_test_case_passes(ds, tmp_path: Path) -> None:
    write_project(tmp_path / "new")
    done = ds("test", "--project", str(tmp_path / "new"))
    assert done.code == 0, done.out + done.err
    assert "1 passed, 0 failed" in done.err


def test_case_of_the_template_names_its_relations(tmp_path: Path) -> None:
    write_project(tmp_path)
    case = yaml.safe_load((tmp_path / "tests" / "orders.case.yaml").read_text())
    assert [item["relation"] for item in case["expect"]] == ["large_orders", "item_sales"]


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_a_workflow_comes_with_the_project_or_alone(ds, tmp_path: Path, service: str) -> None:
    expected = {*CI[service]}
    folder = tmp_path / "new"
    whole = ds("init", str(folder), "--ci", service, "--json").json["files"]
    assert {str(Path(path).relative_to(folder)) for path in whole} == FILES | expected
    (folder / min(expected)).unlink()
    (folder / "requirements.txt").write_text("ds-dagster==1\n")
    alone = ds("init", str(folder), "--ci", service, "--json").json["files"]
    assert [str(Path(path).relative_to(folder)) for path in alone] == [min(expected)]
    assert (folder / "requirements.txt").read_text() == "ds-dagster==1\n"
    assert ds("init", str(folder), "--ci", service, "--json").conditions == ["FOLDER_NOT_EMPTY"]


def steps(service: str, folder: Path) -> list[str]:
    """The shell commands of a pull request, as the service runs them; what installs is left out."""
    (file,) = (folder / name for name in CI[service] if name.endswith(".yml"))
    content = yaml.safe_load(file.read_text())
    if service == "gitlab":
        return [line for line in content["check"]["script"] if not line.startswith("curl")]
    assert content[True]["pull_request"] is None, "YAML 1.1 reads `on` as true"
    runs = [step["run"] for step in content["jobs"]["check"]["steps"] if "run" in step]
    return [run for run in runs if not run.startswith("pip install")]


NOTING = """#!/bin/sh
echo "$@" >> "$NOTED"
echo "the output of ds $1"
"""
"""A ``ds`` that notes its arguments: one of its own for each step takes a second of processor time."""


def test_the_steps_of_a_pull_request_run(ds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them but ``ds test`` and Dagster's validation, which the tests above run: in a shell with a ``ds`` that
    notes its arguments, before and after a deployment has left its state; then each command that was noted."""
    elsewhere = {"ds test", "dagster definitions validate"}
    folder, noted = tmp_path / "new", tmp_path / "noted"
    for service in CI:
        ds("init", str(folder), "--ci", service)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ds").write_text(NOTING)
    (tmp_path / "bin" / "ds").chmod(0o755)
    commands = dict.fromkeys(command for service in CI for command in steps(service, folder))
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "NOTED": str(noted),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }

    def run_steps() -> None:
        for command in (c for c in commands if c not in elsewhere):
            done = subprocess.run(
                ["bash", "-e", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        for file in ("summary.md", "plan.md"):
            assert (folder / file).read_text().endswith("the output of ds plan\n")
            (folder / file).unlink()

    monkeypatch.chdir(folder)
    run_steps()
    assert ds("plan", "--save", "state.json").code == 0
    run_steps()
    calls = dict.fromkeys(noted.read_text().splitlines())
    assert {"plan --markdown", "plan --against state.json --markdown"} < set(calls)
    for call in calls:
        done = ds(*call.split())
        assert done.code == 0, f"ds {call}\n{done.out}{done.err}"
        assert call.startswith("check") or "queries need an action." in done.out
