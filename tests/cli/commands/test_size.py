"""``ds size`` as a command: tables, JSON and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds_dagster.cli.main import run
from ds_dagster.runtime.sizing.coefficients import load_coefficients
from tests.command_line import Ds
from tests.docs.pages import ROOT, blocks, command_lines


def test_sizes_as_a_table(project: Path, ds: Ds) -> None:
    shown = ds("size", "--rows", "5000", "--keys", "1000")
    assert shown.code == 0
    for text in ("NEEDS", "TODAY", "visits", "cores", "spark.sql.shuffle.partitions", "× the load"):
        assert text in shown.out
    assert "were not measured" in shown.err


def test_sizes_as_json(project: Path, ds: Ds) -> None:
    answer = ds("size", "--rows", "clicks=5000", "--rows", "1", "--keys", "1000", "--json").json
    by_name = {query["query"]: query for query in answer["queries"]}
    assert by_name["visits"]["rows_in"] == 5000
    assert by_name["visits"]["steps"][0]["kept"] == 1000
    assert answer["cores"] >= 1
    assert {limit["name"] for limit in answer["limits"]} >= {"cores", "memory"}
    assert answer["not_measured"][0]["reason"]
    assert {entry["name"] for entry in answer["not_measured"]} <= set(load_coefficients().entries)


def test_compute_pools_have_a_part_each(project: Path, ds: Ds) -> None:
    (project / "sql" / "pool.sql").write_text(
        "CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 8);\n"
        "CREATE CHANGELOG more AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY url\n"
        "  QUERY WITH ('compute_pool' = 'heavy');",
        encoding="utf-8",
    )
    load = ("size", "--rows", "5000", "--keys", "1000")
    own, pool = ds(*load).out.split("compute pool heavy\n")
    assert own.startswith("the project's own engine\n")
    assert "visits" in own and "of 8 cores" not in own
    assert "more" in pool and "of 8 cores" in pool
    answer = ds(*load, "--json").json
    assert [query["query"] for query in answer["compute_pools"]["heavy"]["queries"]] == ["more"]
    assert "more" not in {query["query"] for query in answer["queries"]}


def test_the_page_shows_what_the_command_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DS_STATE", str(tmp_path))
    monkeypatch.setenv("DS_PROFILE", "none")
    assert run(["size", "--project", str(ROOT), "--rows", "5000", "--keys", "100000"]) == 0
    (shown,) = [block.text for block in blocks("") if block.page == "docs/how-to/size.md" and "NEEDS" in block.text]
    assert shown.strip() in capsys.readouterr().out


def test_what_is_not_known_is_said(project: Path, ds: Ds) -> None:
    refused = ds("size")
    assert refused.code == 1
    assert "SIZE_LOAD_MISSING" in refused.err
    assert "--rows clicks=…" in refused.err
    assert ds("size", "--measured").code == 1, "no job has run"


def test_the_pages_commands_size_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that need neither a file nor running jobs."""
    page = [block for block in blocks("sh") if block.page == "docs/how-to/size.md"]
    lines = [line.split() for block in page for line in command_lines(block.text) if line.startswith("ds size")]
    typed = [words[1:] for words in lines if not {"--load", "--measured", "--coefficients"} & set(words)]
    assert len(typed) == 2
    for words in typed:
        assert run([*words, "--project", str(ROOT)]) == 0, (words, capsys.readouterr().err)


def test_a_project_with_mistakes_is_not_sized(project: Path, ds: Ds) -> None:
    (project / "sql" / "wrong.sql").write_text("CREATE STREAM x AS SELECT nothing FROM clicks;", encoding="utf-8")
    assert ds("size", "--rows", "1", "--keys", "1").code == 1


@pytest.mark.parametrize(
    ("goal", "expected"), [("1", "only with more cores than rows need"), ("0.4", "no number of cores"), ("3", "")]
)
def test_a_batch_that_is_too_long_says_whether_cores_help(ds, goal: str, expected: str) -> None:
    told = ds("size", "--rows", "1e6", "--keys", "10", "--batch-seconds", goal).err
    reasons = ("only with more cores than rows need", "no number of cores")
    assert [reason for reason in reasons if reason in told] == ([expected] if expected else [])


@pytest.mark.parametrize("goal", ["nan", "inf", "0.01"])
def test_a_goal_that_is_not_a_time_is_refused(project: Path, ds: Ds, goal: str) -> None:
    assert ds("size", "--rows", "1", "--keys", "1", "--batch-seconds", goal).code == 2


def test_a_heap_that_no_engine_should_have_is_named(project: Path, ds: Ds) -> None:
    load = ("size", "--rows", "1000", "--batch-seconds", "2000", "--keys")
    assert "MB are more than the heap of one engine should have (131,072 MB)" in ds(*load, "1e9").err
    assert "more than the heap" not in ds(*load, "1e6").err


def test_a_project_without_load_has_the_least_size(project: Path, ds: Ds) -> None:
    answer = ds("size", "--rows", "0", "--keys", "0", "--json").json
    assert (answer["engines"], answer["cores"], answer["disk_bytes"]) == (1, 1, 0)
