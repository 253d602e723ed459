"""What loading definitions writes, and the shape of what is loaded."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import dagster as dg
import pytest
import yaml

from ds_dagster.orchestration import DsProject, DsTranslator, build_ds_checks, build_ds_definitions
from ds_dagster.orchestration.health.checks import CHECKED_TOGETHER
from tests.orchestration.conftest import STORES, STREAMS, write_project

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def test_loading_writes_nothing(project: DsProject) -> None:
    build_ds_definitions(project)
    assert not (project.root / ".ds").exists()


def test_shape(project: DsProject) -> None:
    definitions = build_ds_definitions(project)
    dg.Definitions.validate_loadable(definitions)
    assert [sensor.name for sensor in definitions.sensors or ()] == ["ds_health"]
    (sensor,) = definitions.sensors or ()
    assert isinstance(sensor, dg.SensorDefinition)
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert [job.name for job in definitions.jobs or ()] == ["ds_control"]
    assert definitions.executor is dg.in_process_executor
    assert build_ds_definitions(project, health_sensor=False).sensors == []


def test_one_op_for_all_streams(tmp_path: Path) -> None:
    """An op for each relation would make loading and runs of large projects slow."""
    count = 60
    source = """CREATE STREAM clicks (url VARCHAR, device VARCHAR) WITH ('topic'='clicks', 'value.format'='json',
      'topic.partitions'=1, 'topic.replicas'=1);"""
    queries = "\n".join(f"CREATE STREAM s{n} AS SELECT url FROM clicks WHERE device = '{n}';" for n in range(count))
    project = DsProject(write_project(tmp_path, stores=STORES, streams=source + queries))
    definitions = build_ds_definitions(project)
    nodes = {node.name for node in definitions.resolve_implicit_global_asset_job_def().graph.node_defs}
    assert nodes == {"ds_streams", "ds_sources", "ds_checks", "ds_engine_checks"}
    assert len(list(definitions.resolve_all_asset_specs())) == count + 2, "clicks, and the engine"


@pytest.mark.servers
def test_dagsters_own_validation_tells_mistakes(folder: Path) -> None:
    """``dagster definitions validate`` fails with the place of a mistake."""
    write_project(folder, wrong="CREATE STREAM wrong AS SELECT urll FROM clicks;")
    (folder / "definitions.py").write_text(
        "from pathlib import Path\nfrom ds_dagster.orchestration import DsProject, build_ds_definitions\n"
        "defs = build_ds_definitions(DsProject(Path(__file__).parent))\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-f", "definitions.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    told = done.stdout + done.stderr
    assert done.returncode != 0, told
    assert "UNKNOWN_COLUMN" in told
    assert "wrong.sql:1" in told


def test_both_ways_to_start_load_the_same_module() -> None:
    """``dagster dev`` prefers pyproject.toml to workspace.yaml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text(encoding="utf-8"))
    (target,) = workspace["load_from"]
    assert target["python_file"]["relative_path"] == settings["dagster"]["module_name"] + ".py"
    assert target["python_file"]["location_name"] == settings["dagster"]["code_location_name"]
    assert settings["dg"]["project"]["code_location_target_module"] == settings["dagster"]["module_name"]


def test_no_warning_at_load(project: DsProject) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        build_ds_definitions(project).get_repository_def().load_all_definitions()
    assert [str(warning.message) for warning in said] == []


def test_the_checks_of_a_large_project_are_spread_over_ops(tmp_path: Path) -> None:
    """Dagster's graph takes the product of an op's inputs and its checks."""
    text = "".join(f"CREATE STREAM copy_{n} AS SELECT url FROM clicks;\n" for n in range(CHECKED_TOGETHER + 1))
    source = STREAMS.split(";", 1)[0] + ";\n"
    large = DsProject(write_project(tmp_path / "large", stores=STORES, streams=source, zcopies=text))
    assert not large.project.errors
    ops = [checks.node_def.name for checks in build_ds_checks(large, DsTranslator())]
    assert ops == ["ds_checks", "ds_checks_2"]
    dg.Definitions.validate_loadable(build_ds_definitions(large))
