"""Differences as a run tells them, golden files, the command, the plugin: on Spark, in processes of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.command_line import in_a_process

pytestmark = pytest.mark.cases

CASE = """
title: counts
sql: |
  CREATE STREAM t (g VARCHAR) WITH ('topic' = 't', 'value.format' = 'json');
  CREATE CHANGELOG c AS SELECT g, COUNT(*) AS n FROM t GROUP BY g;
stores: {s: memory}
steps:
  - send: {topic: t, rows: [{value: {g: a}}, {value: {g: b}}, {value: {g: a}}]}
expect:
"""


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture
def project(tmp_path):
    return tmp_path


@pytest.mark.usefixtures("session_stays")
def test_command_shows_differences_updates_goldens_and_knows_its_exit_codes(write_case, tmp_path, ds):
    write_case(CASE + "  - {relation: c, rows: [{g: a, n: 3}, {g: c, n: 1}]}\n", "wrong.case.yaml")
    write_case(CASE + "  - {relation: c, file: golden/c.jsonl}\n", "golden.case.yaml")

    updated = in_a_process(tmp_path, "test", ".", "--update", "--json")
    report = updated.json
    assert updated.code == 1, updated.err
    assert not re.search(r"(?m)^(WARNING|Using Spark|Setting )", updated.err), "nothing of the JVM's own"
    assert (report["ok"], report["passed"], report["failed"]) == (False, 1, 1)
    by_file = {case["file"]: case for case in report["cases"]}
    assert by_file["golden.case.yaml"]["written"] == ["golden/c.jsonl"]
    (failure,) = by_file["wrong.case.yaml"]["failures"]
    assert (failure["relation"], failure["line"]) == ("c", 10)
    assert failure["text"].splitlines()[1:] == [
        '  ~ g "a": n is 2, expected 3',
        '  - {"g": "c", "n": 1}',
        '  + {"g": "b", "n": 1}',
    ]
    golden = (tmp_path / "golden" / "c.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in golden] == [{"g": "a", "n": 2}, {"g": "b", "n": 1}]

    again = ds("test", ".", "-k", "GOLDEN")
    assert again.code == 0, again.out + again.err
    assert "1 passed, 0 failed" in again.err
    assert ds("test", ".", "-k", "nothing of the kind").code == 1
    assert ds("test", "--no-such-option").code == 2


def test_plugin_collects_each_case_as_an_item_and_imports_spark_late(write_case, tmp_path):
    """Both cases end before Spark: running cases by this plugin is what the tier of cases does."""
    mistake = CASE.replace("SELECT g,", "SELECT h,").partition("steps:")[0]
    write_case(mistake + "error: {condition: UNKNOWN_COLUMN}\n", "right.case.yaml")
    write_case(mistake + "expect: {relation: c, rows: []}\n", "wrong.case.yaml")
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    ran = run(tmp_path, *options, "-W", "error", str(tmp_path))
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed, 1 passed" in ran.stdout
    assert "[UNKNOWN_COLUMN]" in ran.stdout
    assert "Traceback" not in ran.stdout

    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_collection_finish(session):\n"
        "    names = [item.nodeid for item in session.items]\n"
        "    loaded = sorted({'pyspark', 'dagster', 'sqlglot', 'yaml'} & set(sys.modules))\n"
        "    print('COLLECTED', names, loaded)\n"
    )
    listed = run(tmp_path, *options, "--collect-only", "-s", str(tmp_path))
    assert "COLLECTED ['right.case.yaml::case', 'wrong.case.yaml::case'] []" in listed.stdout
