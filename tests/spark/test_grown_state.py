"""Results that are added to the groups of a checkpoint, in both state stores, killed at every step, against a model of
all records and of those since the change."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from ds_dagster.engine import growth
from ds_dagster.engine.growth import rewrite_state
from ds_dagster.errors import UserError
from ds_dagster.project.load import LoadedProject
from ds_dagster.runtime.checkpoint_files import finish_growth
from ds_dagster.runtime.checkpoint_log import kept_batches
from ds_dagster.runtime.deciding.changes import recompiled, spec_going_on
from ds_dagster.runtime.deciding.spec import JobSpec, job_spec
from ds_dagster.spark.queries import prepared
from ds_dagster.spark.session import PARTITIONS
from tests.plan.identity.edits import job_row
from tests.spark.state_stores import maintain

pytestmark = pytest.mark.spark
SOURCE = "CREATE STREAM a (k INTEGER, x VARCHAR, n INTEGER) WITH ('topic' = 'a', 'value.format' = 'json');\n"
Row = Mapping[str, Any]


def numbers(rows: Iterable[Row]) -> list[int]:
    return [row["n"] for row in rows if row["n"] is not None]


RESULTS: Mapping[str, tuple[str, Callable[[Sequence[Row]], Any]]] = {
    "c": ("COUNT(*)", len),
    "v": ("AVG(n)", lambda rows: fmean(numbers(rows) or [0]) if numbers(rows) else None),
    "t": ("SUM(n)", lambda rows: sum(numbers(rows)) if numbers(rows) else None),
    "m": ("MIN(x)", lambda rows: min(row["x"] for row in rows)),
    "h": ("MAX(n)", lambda rows: max(numbers(rows), default=None)),
    "d": ("COUNT(DISTINCT x)", lambda rows: len({row["x"] for row in rows})),
    "e": ("APPROX_COUNT_DISTINCT(x)", lambda rows: len({row["x"] for row in rows})),
    "l": ("ARRAY_AGG(x)", lambda rows: [row["x"] for row in rows]),
    "f": ("COUNT(*) FILTER (WHERE n > 3)", lambda rows: sum(n > 3 for n in numbers(rows))),
    "s": ("STDDEV_POP(n)", lambda rows: pstdev(numbers(rows)) if numbers(rows) else None),
}
"""Result → call, and its value for the rows of a group in plain Python."""
HISTORY = ("cv", "tcmdev", "hv", "cv", "lhfsc", "".join(RESULTS))
"""Results that each definition shows: some are added, removed, and shown again."""
REQUESTED = {3: "se"}
"""Phase → results of a definition that was requested before, and never started."""


@dataclass
class Model:
    """Rows by phase; ``since``: result → the phase in which the state has got it."""

    rows: list[list[Row]] = field(default_factory=list)
    since: dict[str, int] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=dict)

    def phase(self, names: str, rows: list[Row], requested: str = "") -> None:
        self.rows.append(rows)
        for name in names + requested:
            self.since.setdefault(name, len(self.rows) - 1)
        for key in {row["k"] for row in rows}:
            values = {name: RESULTS[name][1](self.of(key, self.since[name])) for name in names}
            self.shown[json.dumps({"k": key})] = {"k": key, **values}

    def of(self, key: int, since: int) -> list[Row]:
        return [row for rows in self.rows[since:] for row in rows if row["k"] == key]


def statement(names: str) -> str:
    columns = ", ".join(f"{RESULTS[name][0]} AS {name}" for name in names)
    return f"{SOURCE}CREATE CHANGELOG s AS SELECT k, {columns} FROM a GROUP BY k;"


def records(seed: int, keys: range) -> list[Row]:
    dice = random.Random(seed)
    return [
        {"k": dice.choice(keys), "x": f"x{dice.randrange(5)}", "n": dice.choice([None, *range(8)])} for _ in range(24)
    ]


def place_of(bench: Any) -> Path:
    return bench.folder / "checkpoints" / "s"


def goes_on(bench: Any, project: LoadedProject, spec: JobSpec | None) -> JobSpec:
    """The spec with which the query goes on, as the journal keeps it; the bench runs its definition."""
    query = project.queries["s"]
    spec = job_spec(project, query) if spec is None else spec_going_on(project, query, job_row(spec), grows=True)
    spec = JobSpec.from_json(spec.to_json())
    bench.project = type(project)(project.settings, project.catalog, {"s": recompiled(spec, project.settings)[1]})
    return spec


def run(bench: Any, rows: list[Row], *, grows: bool) -> None:
    """Start, two batches, stop."""
    query = bench.start("s", grows=grows)
    for part in (rows[::2], rows[1::2]):
        bench.send("a", *part)
        bench.settle(query)
    bench.stop()


def assert_shown(bench: Any, model: Model) -> None:
    found, expected = ({key: in_order(row) for key, row in rows.items()} for rows in (bench.folded(), model.shown))
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        assert found[key] == pytest.approx(row), key


def in_order(row: Row) -> Row:
    """A list in its own order, its elements as columns of the row."""
    return {name: value for name, value in row.items() if name != "l"} | dict(enumerate(sorted(row.get("l", []))))


@pytest.mark.parametrize("store", ["heap", "rocksdb"])
def test_results_are_added_and_removed(bench: Any, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "state_store", lambda _plan: store)
    model, spec, before = Model(), None, bench.spark.conf.get(PARTITIONS)
    bench.spark.conf.set(PARTITIONS, "3")
    try:
        for phase, names in enumerate(HISTORY):
            requested = REQUESTED.get(phase, "")
            for text in filter(None, (requested, names)):
                spec = goes_on(bench, bench.compile(statement(text)), spec)
            assert spec is not None
            rows = records(phase, range(phase, phase + 6))
            run(bench, rows, grows=spec.grows)
            model.phase(names, rows, requested)
            assert_shown(bench, model)
            maintain(bench.spark)
    finally:
        bench.spark.conf.set(PARTITIONS, before)
    grown = [phase for phase in range(1, len(HISTORY)) if phase in model.since.values()]
    assert len(list(place_of(bench).parent.iterdir())) == 1 + len(grown), "each growth keeps the former checkpoint"


class Killed(BaseException):
    """The process ends here."""


def killed(*_: object, **__: object) -> Any:
    raise Killed


STEPS = ("copy_without_state", "add_results", "exchange_grown", "first rename", "second rename", "third rename")


def kill_at(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill before a function of the growth, or at a rename of the exchange."""
    if not step.endswith("rename"):
        monkeypatch.setattr(growth, step, killed)
        return
    rename, left = Path.rename, [0] * ("first rename", "second rename", "third rename").index(step)

    def until_killed(path: Path, target: Path) -> Path:
        return rename(path, target) if left and not left.pop() else killed()

    monkeypatch.setattr(Path, "rename", until_killed)


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_leaves_the_old_or_the_new_checkpoint(bench: Any, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    for phase, names in enumerate(("cv", "cvth")):
        bench.compile(statement(names))
        if phase:
            with monkeypatch.context() as patched, pytest.raises(Killed):
                kill_at(step, patched)
                bench.start("s", grows=True)
            assert place_of(bench).exists() is (step != "third rename")
            finish_growth(place_of(bench))
        rows = records(phase, range(phase, phase + 6))
        run(bench, rows, grows=bool(phase))
        model.phase(names, rows)
    assert_shown(bench, model)
    left = sorted(path.name for path in place_of(bench).parent.iterdir())
    assert left == ["s", "s-replaced-1"]
    assert kept_batches(place_of(bench)).states == {1, 2, 3}, "no earlier batch has a state with all results"
    assert kept_batches(place_of(bench).with_name("s-replaced-1")).states == {0, 1}


@pytest.mark.parametrize("store", ["heap", "rocksdb"])
@pytest.mark.parametrize("finished", [0, 1])
def test_a_batch_that_has_not_finished_is_repeated_with_all_results(bench: Any, finished: int, store: str) -> None:
    rows, keep, failing = records(1, range(4)), bench.keep, [False] * finished + [True]

    def fails(batch: Any, epoch: int) -> None:
        if failing and failing.pop(0):
            raise RuntimeError("the sink failed")
        keep(batch, epoch)

    bench.keep = fails
    bench.compile(statement("c"))
    query = bench.start("s")
    for part in (rows[:6], rows[6:])[1 - finished :]:
        bench.send("a", *part)
        if finished and not bench.records:
            bench.settle(query)
    bench.fault(query)
    bench.stop()
    model = Model()
    model.phase("c", rows[:6] if finished else [])
    bench.compile(kept_in("ct", store))
    run(bench, [], grows=True)
    model.phase("ct", rows[6:])
    assert_shown(bench, model)


STORES = ("heap", "rocksdb", "heap")


def kept_in(names: str, store: str) -> str:
    return statement(names)[:-1] + f" QUERY WITH ('state.store' = '{store}');"


def test_groups_move_to_the_other_store_and_back(bench: Any) -> None:
    """Two batches in each store, the last time with results added, on three partitions."""
    model, spec, before = Model(), None, bench.spark.conf.get(PARTITIONS)
    bench.spark.conf.set(PARTITIONS, "3")
    try:
        for phase, (names, store) in enumerate(zip(("cvtlhf", "cvtlhf", "cvtlhfms"), STORES, strict=True)):
            spec = goes_on(bench, bench.compile(kept_in(names, store)), spec)
            rows = records(phase, range(phase, phase + 6))
            run(bench, rows, grows=spec.grows)
            model.phase(names, rows)
            assert_shown(bench, model)
            maintain(bench.spark)
            files = {path.suffix for path in (place_of(bench) / "state" / "0").rglob("*") if path.is_file()}
            assert (".delta" in files) is (store == "heap")
    finally:
        bench.spark.conf.set(PARTITIONS, before)
    left = sorted(path.name for path in place_of(bench).parent.iterdir())
    assert left == ["s", "s-replaced-1", "s-replaced-2"], "each move keeps the former checkpoint"


@pytest.mark.parametrize("step", ["copy_without_state", "log_setting", "move_groups", "exchange_grown", *STEPS[3:]])
def test_a_kill_leaves_the_groups_in_one_store(bench: Any, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    for phase, store in enumerate(("rocksdb", "heap") if step == "move_groups" else STORES[:2]):
        bench.compile(kept_in("cv", store))
        if phase:
            with monkeypatch.context() as patched, pytest.raises(Killed):
                kill_at(step, patched)
                bench.start("s")
            finish_growth(place_of(bench))
        rows = records(phase, range(phase, phase + 6))
        run(bench, rows, grows=False)
        model.phase("cv", rows)
    assert_shown(bench, model)
    assert sorted(path.name for path in place_of(bench).parent.iterdir()) == ["s", "s-replaced-1"]


def test_groups_of_another_query_are_refused(bench: Any) -> None:
    bench.compile(statement("cv"))
    run(bench, records(0, range(3)), grows=False)
    for text in (statement("tc"), statement("cv").replace("SELECT k,", "SELECT x AS k,").replace("BY k", "BY x")):
        bench.compile(text)
        with pytest.raises(UserError) as refused:
            rewrite_state(bench.prepare("s"), place_of(bench), grows=True)
        assert refused.value.condition == "CHECKPOINT_OTHER_GROUPS"
    assert [path.name for path in place_of(bench).parent.iterdir()] == ["s"]
