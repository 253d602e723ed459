"""The class archive: named after what it was made from, made once, never half there, and not needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ds_dagster import class_archive
from ds_dagster.class_archive import BROKER, DRIVER, Program, java_options, location, record
from ds_dagster.errors import ExternalError
from tests.e2e.feeding import is_dead, until

Recorder = Callable[[str], Program]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DS_CACHE", str(tmp_path / "ca che"))
    return tmp_path / "ca che"


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("a.jar", "b.jar")]
    for path in made:
        path.write_bytes(b"jar")
    return made


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Makes a program with this recorder; ``runs`` counts its runs."""

    def install(program: str) -> Program:
        module = tmp_path / "fake_recorder.py"
        module.write_text(
            f"import pathlib, sys\nwith open({str(tmp_path / 'runs')!r}, 'a') as f: f.write('x')\n{program}"
        )
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
        return replace(DRIVER, recorder="fake_recorder")

    return install


def test_without_an_archive_java_gets_no_option(jars: list[Path]) -> None:
    assert java_options(jars) == ""


def test_the_options_name_the_archive_even_with_a_blank_in_its_path(jars: list[Path]) -> None:
    location(jars).parent.mkdir(parents=True)
    location(jars).touch()
    assert java_options(jars).startswith(f'-XX:SharedArchiveFile="{location(jars)}" ')


def test_another_jar_another_order_or_another_java_is_another_archive(
    jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {location(jars), location(jars[::-1]), location(jars[:1])}
    os.utime(jars[0], ns=(1, 1))
    seen.add(location(jars))
    java = tmp_path / "java"
    java.touch()
    monkeypatch.setattr(class_archive, "java_command", lambda: str(java))
    seen.add(location(jars))
    assert len(seen) == 5


def test_archives_of_brokers_have_a_folder_of_their_own(jars: list[Path]) -> None:
    assert location(jars, BROKER) == location(jars).parent / "broker" / location(jars).name


def test_it_is_recorded_once_and_old_ones_go(jars: list[Path], recorder: Recorder, tmp_path: Path) -> None:
    program = recorder("pathlib.Path(sys.argv[1]).write_text('classes')")
    folder = location(jars).parent
    folder.mkdir(parents=True)
    for number in range(5):
        (folder / f"old{number}.jsa").touch()
        os.utime(folder / f"old{number}.jsa", (number, number))
    told: list[str] = []
    assert record(told.append, program, jars=jars) == record(told.append, program, jars=jars) == location(jars)
    assert location(jars).read_text() == "classes"
    assert (tmp_path / "runs").read_text() == "x"
    assert len(told) == 2
    assert {p.name for p in folder.iterdir()} == {
        location(jars).name, "record.lock", "old2.jsa", "old3.jsa", "old4.jsa",
    }  # fmt: skip


@pytest.mark.parametrize("program", ["sys.exit('no such class')", "pass"])
def test_a_failed_recording_leaves_nothing(program: str, jars: list[Path], recorder: Recorder) -> None:
    with pytest.raises(ExternalError) as caught:
        record(lambda line: None, recorder(program), jars=jars)
    assert caught.value.condition == "CLASS_ARCHIVE_FAILED"
    assert ("no such class" in caught.value.detail) == ("no such" in program)
    assert [p.name for p in location(jars).parent.iterdir()] == ["record.lock"]


@pytest.mark.parametrize("after", ["", "child.wait()"], ids=["it ends before", "it takes too long"])
def test_nothing_that_a_recorder_started_outlives_it(
    after: str, jars: list[Path], recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "RECORD_SECONDS", 5.0)
    program = f"""
import subprocess
child = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
pathlib.Path({str(tmp_path / "child")!r}).write_text(str(child.pid))
{after}
"""
    with pytest.raises(ExternalError) as caught:
        record(lambda line: None, recorder(program), jars=jars)
    assert caught.value.detail == ("not done after 5 s" if after else "")
    pid = int((tmp_path / "child").read_text())
    until(lambda: is_dead(pid), "the child is dead", 30)
