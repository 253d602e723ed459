"""``ds size``: the arithmetic of a plan's demand, held against sums made by hand, and where its figures come from."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds_dagster.errors import UserError
from ds_dagster.plan.nodes.node import Node
from ds_dagster.project.load import LoadedProject, load_project
from ds_dagster.runtime.sizing.coefficients import TABLE, Coefficients, load_coefficients
from ds_dagster.runtime.sizing.estimate import SizeGoal, Sizing, cores_for, demands_of, megabytes, sizings_of
from ds_dagster.runtime.sizing.expected import ExpectedLoad, expected_load
from ds_dagster.runtime.status import JobStatus
from tests.docs.pages import ROOT

SQL = """
CREATE STORE k WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1');
CREATE STREAM s (id BIGINT, n BIGINT, t VARCHAR, at BIGINT) WITH ('store'='k', 'topic'='s', 'value.format'='json',
  'topic.partitions'=1, 'timestamp'='at');
CREATE CHANGELOG u (id BIGINT, name VARCHAR, PRIMARY KEY (id)) WITH ('store'='k', 'topic'='u', 'value.format'='json',
  'topic.partitions'=1);
CREATE STREAM a AS SELECT id, n, t FROM s WHERE n > 1;
CREATE CHANGELOG counts AS SELECT t, COUNT(*) AS c FROM a GROUP BY t;
CREATE CHANGELOG minutes AS SELECT window_start, window_end, t, COUNT(*) AS c
  FROM TUMBLE(s, SIZE 1 MINUTE) GROUP BY window_start, window_end, t;
CREATE STREAM named AS SELECT s.n, u.name FROM s JOIN u ON s.id = u.id;
CREATE STREAM pairs AS SELECT l.n, r.n AS m FROM s l JOIN s r WITHIN 1 MINUTE ON l.id = r.id;
"""
FIGURES = load_coefficients()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    return written(tmp_path_factory.mktemp("project"))


def written(folder: Path, settings: str = "") -> LoadedProject:
    (folder / "sql").mkdir(parents=True)
    (folder / "sql" / "all.sql").write_text(SQL, encoding="utf-8")
    (folder / "ds.toml").write_text(f'store = "k"\n{settings}', encoding="utf-8")
    return load_project(folder, strict=True)


def expected(**numbers: Any) -> ExpectedLoad:
    return ExpectedLoad(**{"rows": {"*": 1000.0}, "keys": {"*": 100.0}, **numbers})


def sized(project: LoadedProject, load: ExpectedLoad | None = None, goal: SizeGoal | None = None) -> Sizing:
    return sizings_of(project, load or expected(), FIGURES, goal or SizeGoal())[""]


def demand(project: LoadedProject, name: str, load: ExpectedLoad | None = None, figures: Coefficients = FIGURES) -> Any:
    return next(d for d in demands_of(project, load or expected(), figures) if d.query == name)


# --- figures ----------------------------------------------------------------------------------------------------------


def test_every_figure_has_one_source() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    entries = FIGURES.entries.values()
    assert len(entries) > 30
    assert not [e.name for e in entries if sum(map(bool, (e.page, e.run, e.taken))) != 1]
    assert not [e.name for e in entries if e.page and e.page not in page], "a figure that the page does not show"
    assert not [e.name for e in entries if e.page and float(e.page.replace(",", "")) != e.value]
    assert all(e.source for e in entries)


def all_nodes(kind: type[Node] = Node) -> list[type[Node]]:
    return [kind, *(below for inner in kind.__subclasses__() for below in all_nodes(inner))]


def test_figures_of_steps_name_plan_nodes() -> None:
    names = {kind.__name__ for kind in all_nodes()} | {
        "other",
        "DeltaExtremes",
        "heap",
        "group",
        "group_on_disk",
        "heap_groups",
    }
    entries = [name.split(".") for name in FIGURES.entries]
    assert not [parts for parts in entries if parts[0] in ("step", "state") and parts[1] not in names]


def test_a_file_replaces_figures(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[step.Over]\nvalue = 5\nrun = "here"\n[headroom]\nvalue = 3\nrun = "here"\n', encoding="utf-8")
    figures = load_coefficients(file)
    assert (figures.of("step", "Over").value, figures.value("headroom")) == (5, 3)
    assert figures.of("step", "Match") == FIGURES.of("step", "Match")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[step.Ovre]\nvalue = 5\n", "no figure step.Ovre"),
        ("[step.Over]\nvalue = 0\n", "not a number above 0"),
        ("[step.Over]\nvalue = true\n", "not a number above 0"),
        ("[step", "Expected"),
    ],
)
def test_a_file_that_is_not_usable_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        load_coefficients(file)
    assert refused.value.condition == "SIZE_FILE_INVALID"
    assert reason in refused.value.message


# --- demand -----------------------------------------------------------------------------------------------------------


def test_a_filter_costs_reading_and_writing(project: LoadedProject) -> None:
    found = demand(project, "a")
    assert (found.rows_in, found.rows_out, found.steps) == (1000, 1000, ())
    assert found.cores == pytest.approx(1000 / 371089 * 2)


def test_rows_flow_from_query_to_query(project: LoadedProject) -> None:
    load = expected(rows={"s": 1000.0, "u": 10.0})
    assert demand(project, "counts", load).rows_in == 1000, "what a filter leaves is not known: all"
    load = expected(rows={"s": 1000.0, "u": 10.0, "a": 50.0})
    assert demand(project, "counts", load).rows_in == 50
    assert demand(project, "named", load).rows_in == 1010
    assert demand(project, "named", load).rows_out == 1000, "a version of a user is not a row"


@pytest.mark.parametrize(
    ("query", "rows_per_cpu_second"), [("a", "371,089"), ("counts", "379,005"), ("named", "46,314")]
)
def test_whole_queries_cost_no_more_than_is_planned(
    query: str, rows_per_cpu_second: str, project: LoadedProject
) -> None:
    """From topic to topic, as docs/performance.md has them; of a temporal join the rows of the stream count there."""
    assert rows_per_cpu_second in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    load = expected(rows={"s": 1e6, "u": 0.0}, keys={"*": 10_000.0})
    assert demand(project, query, load).cores >= 0.999 * 1e6 / float(rows_per_cpu_second.replace(",", ""))


def test_an_aggregate_costs_rows_and_groups(project: LoadedProject) -> None:
    many, few = (demand(project, "counts", expected(keys={"*": keys})).cores for keys in (1e6, 1.0))
    assert few == pytest.approx(1000 * (2 / 371089 + 1 / 827826) + 10 / 295000)
    assert many == pytest.approx(few + 990 / 295000), "each row is of a group of its own"


def test_a_closed_window_gives_a_row_for_each_key(project: LoadedProject) -> None:
    found = demand(project, "minutes", expected(keys={"*": 600.0}))
    assert found.rows_out == 10
    (step,) = found.steps
    assert step.kept == 600 * 3, "the open window, late ones, and one for the next"
    assert found.on_heap


def test_state_of_an_interval_join_is_its_rows(project: LoadedProject) -> None:
    found = demand(project, "pairs", expected(bytes={"*": 100.0}))
    (step,) = found.steps
    assert step.rows == 2000
    assert step.kept == 2000 * (60 + 10)
    assert step.bytes == step.kept * (667 + 100)
    assert not found.on_heap


def test_more_load_never_costs_less(project: LoadedProject) -> None:
    sizes = [sized(project, expected(rows={"*": rows}, keys={"*": rows})) for rows in (10.0, 1e3, 1e5, 1e6, 1e7)]
    for name in ("cores", "heap_megabytes", "disk", "partitions"):
        values = [getattr(size, name) * (size.engines if name == "cores" else 1) for size in sizes]
        if name != "heap_megabytes":  # of one engine; more of them share it
            assert values == sorted(values), name
    assert sizes[-1].engines > sizes[0].engines == 1


@pytest.mark.parametrize("keys", [0.0, 1.0, 1e4, 1e9])
def test_answers_do_not_shrink_where_the_load_grows(project: LoadedProject, keys: float) -> None:
    """From no rows at all to more than any cluster has; engines times their cores, heap and disk."""
    last = (0.0, 0.0, 0.0, 0.0)
    for rows in (0.0, *(10 ** (step / 2) for step in range(19))):
        size = sized(project, expected(rows={"*": rows}, keys={"*": keys}))
        cores, heap = size.engines * size.cores, size.engines * size.heap_megabytes
        answer = (float(size.engines), float(cores), float(heap), size.disk)
        assert all(now >= before for now, before in zip(answer, last, strict=True)), (rows, answer, last)
        last = answer


def test_what_is_measured_counts_where_nothing_is_stated(project: LoadedProject) -> None:
    job = JobStatus("counts", "", "", "RUNNING", "RUNNING", rows=1000, rows_written=100, rows_per_second=70.0,
                    state_rows=40, state_bytes=4000, fastest=500.0)  # fmt: skip
    load = ExpectedLoad(rows={"s": 70.0, "u": 1.0}, keys={"minutes": 5.0, "named": 5.0}).with_measured([job])
    found = demand(project, "counts", load)
    assert (found.rows_in, found.rows_out, found.state, found.measured) == (70, 7, 4000, True)
    assert demand(project, "counts", replace(load, keys={"*": 10.0})).state == 10 * 378
    for other in (replace(job, rows=0), replace(job, state="STOPPED"), replace(job, state="FAILED")):
        with pytest.raises(UserError, match="not known"):
            demand(project, "counts", replace(load, measured={}).with_measured([other]))
    waits = replace(load, rows={"u": 1.0}).with_measured([replace(job, rows_per_second=0.0)])
    with pytest.raises(UserError, match="not known"):
        demand(project, "counts", waits)


# --- the answer -------------------------------------------------------------------------------------------------------


def test_cores_are_the_fewest_that_do() -> None:
    assert cores_for(0.1, [], 1.0, 2.0) == 1
    assert cores_for(1.5, [0.05], 1.0, 2.0) == 3, "half of each core is planned with"
    assert cores_for(0.2, [0.05] * 40, 1.0, 2.0) == 3, "2 s of batches without rows, in every second"
    assert cores_for(0.2, [0.05] * 40, 0.1, 2.0) == 21


def test_batches_are_as_short_as_wished_where_that_is_possible(project: LoadedProject) -> None:
    for seconds in (0.2, 0.5, 2.0):
        assert sized(project, goal=SizeGoal(seconds)).batch_seconds <= seconds
    short = sized(project, goal=SizeGoal(0.05))
    assert short.batch_seconds > short.least_batch_seconds > 0.05, "a batch without rows takes longer"


def test_a_small_machine_means_more_engines(project: LoadedProject) -> None:
    load = expected(rows={"*": 200_000.0})
    large, small = sized(project, load, SizeGoal(host_cores=64)), sized(project, load, SizeGoal(host_cores=2))
    assert large.engines == 1
    assert small.engines == math.ceil(large.cores / 2)


def test_each_compute_pool_is_sized_by_itself(tmp_path: Path, project: LoadedProject) -> None:
    written(tmp_path)
    placed = SQL.replace("FROM a GROUP BY t;", "FROM a GROUP BY t QUERY WITH ('compute_pool' = 'heavy');")
    pool = "CREATE COMPUTE_POOL heavy WITH ('compute_pool.cores' = 8, 'compute_pool.memory' = '4g');"
    (tmp_path / "sql" / "all.sql").write_text(pool + placed, encoding="utf-8")
    pooled = load_project(tmp_path, strict=True)
    sizings = sizings_of(pooled, expected(), FIGURES, SizeGoal())
    assert {pool: [q.demand.query for q in s.queries] for pool, s in sizings.items()} == {
        "": ["a", "minutes", "named", "pairs"],
        "heavy": ["counts"],
    }
    limits = {limit.name: limit.about for limit in sizings["heavy"].limits}
    assert "of 8 cores" in limits["cores"] and "of 4,096 MB" in limits["memory"]
    together = sized(project)
    assert sum(s.disk for s in sizings.values()) == pytest.approx(together.disk, rel=0.3)
    assert {q.demand for s in sizings.values() for q in s.queries} == {q.demand for q in together.queries}


def test_what_ends_first_is_first(project: LoadedProject) -> None:
    limits = sized(project, expected(rows={"*": 100_000.0})).limits
    assert [limit.share for limit in limits] == sorted((limit.share for limit in limits), reverse=True)
    cores = next(limit for limit in limits if limit.name == "cores")
    assert cores.factor == pytest.approx(1 / cores.share)
    assert {limit.name for limit in limits} == {"cores", "memory", "jobs", "partitions"}


def test_queries_in_real_time_mode_occupy_task_slots(tmp_path: Path) -> None:
    """One for each partition they read, and one that is left to batches; such a query has no batches itself."""
    written(tmp_path, "[engine]\ncores = 2\n")
    fast = "WITH ('delivery' = 'at_least_once', 'latency.mode' = 'realtime')"
    sql = SQL.replace("'topic.partitions'=1, 'timestamp'", "'topic.partitions'=3, 'timestamp'")
    (tmp_path / "sql" / "all.sql").write_text(sql.replace("STREAM a AS", f"STREAM a {fast} AS"), encoding="utf-8")
    sizing = sized(load_project(tmp_path, strict=True))
    assert (sizing.slots, sizing.limits[0].about) == (
        4,
        "4 of 2 task slots: queries in real-time mode, and 1 for batches",
    )
    assert [query.batch_seconds > 0 for query in sizing.queries] == [False, True, True, True, True]


def test_on_a_cluster_the_driver_has_a_limit(tmp_path: Path) -> None:
    cluster = """
[engine]
master = "spark://127.0.0.1:7077"
kafka_writers = "driver"
[spark]
"spark.cores.max" = 12
"spark.executor.cores" = 4
"""
    limits = {limit.name: limit for limit in sized(written(tmp_path, cluster)).limits}
    assert "of 12 cores" in limits["cores"].about
    assert "64 MB through the driver" in limits["batch_megabytes"].about
    by_tasks = written(tmp_path / "by_tasks", cluster.replace("driver", "tasks"))
    assert "batch_megabytes" not in {limit.name for limit in sized(by_tasks).limits}


def test_state_without_end_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    project = written(folder)
    (folder / "sql" / "more.sql").write_text(
        "CREATE CHANGELOG each AS SELECT t, COUNT(DISTINCT n) AS c FROM a GROUP BY t;", encoding="utf-8"
    )
    assert not sized(project).growth
    (text,) = sized(load_project(folder)).growth
    assert text.startswith("each: COUNT(DISTINCT n) by t keeps every value: up to ")


def test_what_is_not_known_is_asked_for_all_at_once(project: LoadedProject) -> None:
    with pytest.raises(UserError) as refused:
        sized(project, ExpectedLoad(keys={"counts": 5.0}))
    assert refused.value.condition == "SIZE_LOAD_MISSING"
    options = "--rows s=… --keys minutes=… --rows u=… --keys named=…"
    assert refused.value.hint.startswith(f"add {options};")


# --- the load ---------------------------------------------------------------------------------------------------------


def test_options_win_over_a_file(project: LoadedProject, tmp_path: Path) -> None:
    file = tmp_path / "load.toml"
    file.write_text('[rows]\ns = 1_000\n"*" = 7\n[keys]\ncounts = 5\n[bytes]\n"*" = 50\n', encoding="utf-8")
    load = expected_load(project, {"rows": ["s=2,000", "default.public.u=3"], "keys": ["9"]}, file)
    assert load.rows == {"s": 2000, "*": 7, "default.public.u": 3}
    assert load.keys == {"counts": 5, "*": 9}
    stream = next(r for name, r in project.catalog.relations.items() if name.name == "s")
    assert (load.rows_of(stream), load.bytes_of(stream)) == (2000, 50)


@pytest.mark.parametrize(
    ("option", "text", "condition"),
    [
        ("rows", "ss=1", "SIZE_NAME_UNKNOWN"),
        ("keys", "s=1", "SIZE_NAME_UNKNOWN"),
        ("rows", "s=-1", "SIZE_LOAD_INVALID"),
        ("rows", "s=many", "SIZE_LOAD_INVALID"),
        ("bytes", "nan", "SIZE_LOAD_INVALID"),
        ("bytes", "inf", "SIZE_LOAD_INVALID"),
        ("rows", "1e300", "SIZE_LOAD_INVALID"),
        ("keys", "2e12", "SIZE_LOAD_INVALID"),
    ],
)
def test_a_wrong_load_is_refused(project: LoadedProject, option: str, text: str, condition: str) -> None:
    with pytest.raises(UserError) as refused:
        expected_load(project, {option: [text]})
    assert refused.value.condition == condition


@pytest.mark.parametrize("text", ["[row]\ns = 1\n", "rows = 3\n", "[rows]\ns = true\n", "[rows"])
def test_a_wrong_file_is_refused(project: LoadedProject, text: str, tmp_path: Path) -> None:
    file = tmp_path / "load.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        expected_load(project, {}, file)
    assert refused.value.condition.startswith("SIZE_")


@pytest.mark.parametrize(("text", "number"), [("512m", 512), ("2g", 2048), ("1T", 2**20), ("x", math.inf)])
def test_memory_is_read_as_java_reads_it(text: str, number: float) -> None:
    assert megabytes(text) == number


def test_the_table_is_in_the_package() -> None:
    assert TABLE.is_file()
    assert TABLE.parent.name == "sizing"
