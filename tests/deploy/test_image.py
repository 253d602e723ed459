"""The Dockerfiles of deploy/: read instruction by instruction; in the long form their steps run in a scratch folder.

No container engine builds them here. What only one can do is left out: the packages of the operating system, users.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ds_dagster import jars
from ds_dagster.cli.main import cli
from tests.deploy.dockerfile import Instruction, ignored, instructions, rules
from tests.deploy.test_kubernetes import parsed
from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted(path.name for path in DEPLOY.glob("*Dockerfile"))
PINNED = dict(re.findall(r"^([\w\-]+)==(\S+);", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))


def read(name: str = "Dockerfile") -> list[Instruction]:
    return instructions((DEPLOY / name).read_text(encoding="utf-8"))


def test_what_is_copied_is_there_and_reaches_the_builder() -> None:
    stages = {instruction.stage for instruction in read()}
    sources = 0
    for instruction in read():
        if instruction.name != "COPY":
            continue
        words = instruction.words
        if words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in stages
            continue
        for source in words[:-1]:
            sources += 1
            assert (ROOT / source).exists(), source
            assert not ignored(source, rules()), source
    assert sources > 10


@pytest.mark.parametrize(
    "path", [".venv", ".ds", ".env", "sql/.env", ".git", "tests", "ds_dagster/sql/__pycache__", "docs"]
)
def test_nothing_else_reaches_the_builder(path: str) -> None:
    assert ignored(path, rules())


def test_the_wheel_has_what_its_hook_reads() -> None:
    """The folders and files that hatch_build.py and pyproject.toml name."""
    copied = {word for i in read() if i.name == "COPY" and i.stage == "wheel" for word in i.words[:-1]}
    hook = (ROOT / "hatch_build.py").read_text(encoding="utf-8")
    example = re.findall(r'"([\w.]+)"', re.search(r"^EXAMPLE = \((.+)\)$", hook, re.MULTILINE)[1])  # type: ignore[index]
    assert {"README.md", "LICENSE", "jvm", "ds_dagster", "hatch_build.py", "pyproject.toml", *example} <= copied


def test_versions_are_those_of_the_constraints() -> None:
    lines = (DEPLOY / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = dict(line.split()[0].split("==") for line in lines if line and not line.startswith("#"))
    assert wanted.pop("dagster-postgres") == PINNED["dagster-pyspark"], "Dagster's libraries have one version"
    assert wanted.items() <= PINNED.items()
    installs = [i.text for i in read() if i.name == "RUN" and re.search(r"pip (install|wheel)", i.text)]
    assert len(installs) == 2
    assert all("constraints.txt" in line for line in installs)
    (spark,) = [i.text.partition("=")[2] for i in read("executor.Dockerfile") if i.text.startswith("SPARK=")]
    assert spark == PINNED["pyspark"]


@pytest.mark.parametrize("name", FILES)
def test_images_have_versions(name: str) -> None:
    defaults = dict(i.text.split("=", 1) for i in read(name) if i.name == "ARG" and not i.stage)
    for instruction in read(name):
        if instruction.name == "FROM":
            image = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], instruction.words[0])
            assert image in {i.stage for i in read(name)} or re.search(r":\d+\.\d+\.\d+\b", image), image


def test_executors_find_spark_where_the_image_has_it() -> None:
    (python,) = {i.text.partition("=")[2] for i in read() if i.text.startswith("PYTHON=")}
    minor = ".".join(python.split(".")[:2])
    (home,) = [i.text for i in read("executor.Dockerfile") if i.name == "ENV"]
    assert f"/opt/ds/lib/python{minor}/site-packages/pyspark" in home


@pytest.mark.parametrize("name", FILES)
def test_no_secret_is_in_it(name: str) -> None:
    secret = re.compile(r"(?i)(password|passwd|secret|token|api_?key|credential)|://[^/\s]+@")
    assert not [i.text for i in read(name) if secret.search(i.text)]
    assert not [i.text for i in read(name) if i.name == "COPY" and ".env" in i.text]


def test_it_runs_the_engine_as_nobody_special() -> None:
    runtime = [i for i in read() if i.stage == "runtime"]
    users = [i.text for i in runtime if i.name == "USER"]
    assert users == ["10001:10001"]
    (entry,) = [i.text for i in runtime if i.name == "RUN" and "useradd" in i.text]
    assert "--uid 10001 --gid 10001 --home-dir /tmp" in entry, "Java has no home otherwise, and Spark does not start"
    last_run = max(number for number, i in enumerate(runtime) if i.name == "RUN")
    assert last_run < next(number for number, i in enumerate(runtime) if i.name == "USER"), "the user changes nothing"
    command = json.loads(next(i.text for i in runtime if i.name == "CMD"))
    assert command[0] == "ds"
    assert parsed(cli, command).command.name == "run"


def test_a_line_that_is_not_an_instruction_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="INSTALL"):
        instructions("FROM x\nINSTALL y\n")
    (_, run) = instructions("FROM x AS y\n# a comment\nRUN a \\\n   && b\n")
    assert (run.text, run.stage) == ("a && b", "y")


# --- the steps --------------------------------------------------------------------------------------------------------

OF_THE_SYSTEM = ("apt-get ", "useradd ")
"""What only an image can do."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the steps of the Dockerfile make, with this folder as the root of the image."""
    root = tmp_path_factory.mktemp("image")
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "DS_CACHE")
    }
    environment |= {"EXTRAS": "", "DS_CACHE": str(root / "opt" / "ds-cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    folder = root
    for step in read():
        if step.name == "WORKDIR":
            folder = root / step.text.lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
        elif step.name == "COPY" and not step.words[0].startswith("--from="):
            target = (
                folder / step.words[-1] if not step.words[-1].startswith("/") else root / step.words[-1].lstrip("/")
            )
            _copied([ROOT / word for word in step.words[:-1]], target, is_folder=step.words[-1].endswith("/"))
        elif step.name == "RUN" and not any(word in step.text for word in OF_THE_SYSTEM):
            line = re.sub(r"(?<![\w.])/(opt|state|project)(?=[/\s\"])", rf"{root}/\1", step.text)
            line = re.sub(r"(?<![\w/])python(?= -m (pip|venv))", sys.executable, line)
            subprocess.run(["sh", "-euc", line], cwd=folder, env=environment, check=True)
    return root


def _copied(sources: list[Path], target: Path, *, is_folder: bool) -> None:
    """As COPY does: of a folder what is in it. Only what git has, as little as an image."""
    for source in sources:
        if source.is_dir():
            listed = subprocess.run(
                ["git", "ls-files", "-z", "."], cwd=source, capture_output=True, text=True, check=True
            )
            for name in filter(None, listed.stdout.split("\0")):
                _copied([source / name], target / name, is_folder=False)
        else:
            place = target / source.name if is_folder or target.is_dir() else target
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(source.read_bytes())


@pytest.mark.slow
def test_the_steps_make_programs_that_need_no_network(image: Path, tmp_path: Path) -> None:
    """Every program of the image answers; the jars and the archive of classes are found without fetching anything."""
    (tmp_path / "ds.toml").write_text("", encoding="utf-8")
    programs_folder = image / "opt" / "ds" / "bin"
    environment = {
        "PATH": f"{programs_folder}:{os.environ['PATH']}", "DS_CACHE": str(image / "opt" / "ds-cache"),
        "HOME": str(tmp_path),
        "DAGSTER_HOME": str(tmp_path), **({"JAVA_HOME": home} if (home := os.environ.get("JAVA_HOME")) else {}),
    }  # fmt: skip

    def said(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    for program in ("ds", "dagster", "dagster-daemon", "dagster-webserver"):
        assert "Usage" in said(program, "--help")
    assert "GONE" in said("ds", "engine", "status")
    code = """
from ds_dagster import class_archive, jars
from ds_dagster.jars import built_operator_jar, is_resolved, operator_sources, set_folder, locked_sets
assert is_resolved("spark-kafka") and built_operator_jar(operator_sources()) is not None
print(class_archive.location(jars.driver_jars(lambda line: 1 / 0)).is_file())
"""
    assert said("python", "-c", code).strip() == "True"
    whole = [jar for jar in (image / "opt" / "ds-cache").rglob("*.jar") if jar.stat().st_mtime_ns % 1_000_000_000]
    assert not whole, "an image keeps whole seconds"
    assert jars.locked_sets()
