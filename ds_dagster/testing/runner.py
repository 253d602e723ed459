"""Runs one case: compile, start its queries, go through the steps, compare.

All queries run in the shared session, each on a checkpoint of its own. After every step, records flow through the graph
until all queries are idle: a step sees all effects of the step before, and a case gives the same batches every time.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession

from ds_dagster.catalog.io_spec import ReadSpec, WriteSpec
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import log_name
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.datatypes import DataType
from ds_dagster.diagnostics import Span
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.nodes.static import StaticScan
from ds_dagster.plan.query import BoundQuery, Part
from ds_dagster.project.load import LoadedProject
from ds_dagster.stores.memory import loader as memory_loader
from ds_dagster.stores.registry import KINDS
from ds_dagster.testing.case import (
    Advance,
    Case,
    CaseResult,
    Crash,
    Expectation,
    ExpectNow,
    Failure,
    Restart,
    Row,
    Send,
    SendTogether,
    SentRecord,
    Step,
    Wait,
)
from ds_dagster.testing.compiling import TABLES, compile_case, expected_relation, topic_named
from ds_dagster.testing.contents import changes_of, folded, without_values
from ds_dagster.testing.diff import compare
from ds_dagster.testing.format import load_case
from ds_dagster.testing.generated import generated
from ds_dagster.testing.golden import Golden
from ds_dagster.testing.lookups import LookedUp
from ds_dagster.testing.running import RunningQuery, unbounded
from ds_dagster.testing.session import passing_folder
from ds_dagster.testing.topics import MemorySource, Topic
from ds_dagster.testing.values import from_bytes, table_row, to_bytes

SETTINGS_VIEWS = "sqlite"
"""Default store of views, which a case need not declare."""


class CaseRun:
    """One run of a case.

    Args:
        spark: shared session.
        case: as read.
        project: compiled without mistakes.
        folder: for checkpoints.
        golden: see :class:`Golden`.
    """

    def __init__(self, spark: SparkSession, case: Case, project: LoadedProject, folder: Path, golden: Golden) -> None:
        self.spark = spark
        self.case = case
        self.project = project
        self.folder = folder
        self.golden = golden
        self.name = f"case_{uuid.uuid4().hex[:12]}"
        self.moment = 0
        self.topics: dict[tuple[str, str], Topic] = {}
        self.failures: list[Failure] = []
        self.queries = [self._query(query) for query in project.queries.values()]

    # what runs where

    def _query(self, query: BoundQuery) -> RunningQuery:
        writes = {part.name: self._write_spec(part) for part in query.parts}
        topics = {part.name: self._topic(part.sink) for part in query.parts if writes[part.name].kind == "stream"}
        return RunningQuery(
            spark=self.spark,
            query=query,
            job=f"{self.name}_{query.name}",
            reads={scan.source_name: self._read_spec(query, scan) for scan in query.scans},
            writes=writes,
            tables=[self._looked_up(query, scan) for scan in query.tables],
            sources={s.source_name: self._source(s) for s in query.scans},
            checkpoint=self.folder / query.name,
            topics=topics,
            now=lambda: self.moment,
            logs={log_name(log): self._topic(log) for log in query.logs},
        )

    def _source(self, scan: Scan) -> MemorySource:
        return MemorySource(self.spark, self._topic(scan.relation), scan.reading)

    def _topic(self, relation: Relation) -> Topic:
        return self.topics.setdefault((relation.store, relation.entity), Topic(relation.entity))

    def _store(self, query: str, relation: Relation) -> StoreDefinition:
        if relation.store not in self.case.stores:
            raise error("CASE_STORE_REAL", span=relation.span, query=query, store=relation.store)
        return self.project.catalog.store(relation.store)

    def _read_spec(self, query: BoundQuery, scan: Scan) -> ReadSpec:
        store = self._store(query.name, scan.relation)
        spec = KINDS[store.kind].read_spec(store, scan.relation, scan.reading, None)
        return replace(spec, schemas=None)  # the rows of a case are JSON

    def _looked_up(self, query: BoundQuery, scan: StaticScan) -> LookedUp:
        if scan.relation.store != SETTINGS_VIEWS:
            self._store(query.name, scan.relation)
        place = (self._table_store(scan.relation).name, scan.relation.entity)
        return LookedUp(scan, place, self.folder / f"{query.name}.{scan.source_name}.arrow")

    def _write_spec(self, part: Part) -> WriteSpec:
        sink = part.sink
        if sink.kind not in TABLES:
            store = self._store(part.name, sink)
            return unbounded(KINDS[store.kind].write_spec(store, sink, part.refresh))
        if sink.store != SETTINGS_VIEWS:
            self._store(part.name, sink)
        return KINDS["MEMORY"].write_spec(self._table_store(sink), sink, part.refresh)

    def _table_store(self, relation: Relation) -> StoreDefinition:
        """The store of a table. Tables live as long as the process: the run's name separates the cases."""
        return StoreDefinition(f"{self.name}/{relation.store}", "MEMORY", relation.span, relation.origin)

    # running

    def run(self, look: Callable[[], None] = lambda: None) -> None:
        """Go through the case; deviations are in ``failures``.

        Args:
            look: called at the end, before the written rows are deleted.

        Raises:
            DsError: the case names something that does not exist, or a plan is refused.
        """
        full = [running for running in self.queries if running.query.refresh == "full"]
        for store in self._table_stores():
            memory_loader.hold(store)
        try:
            for running in self.queries:
                if running not in full:
                    running.start()
            for step, behind in zip(self.case.steps, [*self.case.steps, None][1:], strict=True):
                self._arm(behind)
                _STEPS[type(step)](self, step)
                if isinstance(step, Send | SendTogether) and not isinstance(behind, Advance):
                    self._flow()
            self._arm(None)
            for running in full:
                running.start()
                running.catch_up()
                running.finish()
            self._check_errors()
            self._look(self.case.expectations)
            look()
        finally:
            self._end()

    def _end(self) -> None:
        for running in self.queries:
            running.stop()
        for store in self._table_stores():
            memory_loader.clear(store)

    def _arm(self, behind: Step | None) -> None:
        for running in self.queries:
            running.crashes.arm(behind.at if isinstance(behind, Crash) else None)

    def step_send(self, step: Send) -> None:
        """Append records to their topic; each part but the last is a batch. The next step decides about the last
        one."""
        records = self._records_to_send(step)
        size = -(-len(records) // step.batches)
        for begin in range(0, len(records), max(size, 1)):
            if begin:
                self._flow()
            self._append(step, records[begin : begin + size])

    def step_send_together(self, step: SendTogether) -> None:
        """Append records to all topics. The next step decides about their batch."""
        for send in step.sends:
            self._append(send, self._records_to_send(send))

    def _records_to_send(self, step: Send) -> Sequence[SentRecord]:
        return generated(self.spark, step.generate, step.partition, step.span) if step.generate else step.records

    def _append(self, step: Send, records: Sequence[SentRecord]) -> None:
        topic = self._topic_named(step.topic, step.store, step.span)
        for record in records:
            self.moment = max(self.moment, record.at or 0)
            at = self.moment if record.at is None else record.at
            topic.append([(to_bytes(record.key), to_bytes(record.value))], at, record.partition)

    def step_advance(self, step: Advance) -> None:
        """Event time advances in one query after another, sources first."""
        self.moment = max(self.moment, step.to)
        for running in self.queries:
            running.catch_up(step.to)

    def step_wait(self, step: Wait) -> None:
        """Rows of views and tables age by the step's milliseconds."""
        for store in self._table_stores():
            memory_loader.hold(store, step.millis)

    def _table_stores(self) -> set[str]:
        """Names of the memory stores that hold tables of this case."""
        return {f"{self.name}/{sink.store}" for running in self.queries for sink in running.query.sinks}

    def step_restart(self, _step: Restart) -> None:
        """Restart all queries between two batches."""
        for running in self.queries:
            running.restart()

    def step_crash(self, step: Crash) -> None:
        """The batches of the step before have crashed already; ``after_commit`` also restarts after the last commit."""
        if step.at == "after_commit":
            for running in self.queries:
                running.restart()
        self._flow()

    def step_look(self, step: ExpectNow) -> None:
        """Compare the expectations of this step."""
        self._look(step.expectations)

    def _flow(self) -> None:
        """Let every query process its new input; queries are ordered, sources before their readers."""
        for running in self.queries:
            running.catch_up()

    def _topic_named(self, name: str, store: str, span: Span) -> Topic:
        return self.topics[topic_named(self.topics, name, store, span)]

    # comparing

    def _check_errors(self) -> None:
        expected = self.case.error
        for running in self.queries:
            wanted = expected is not None and expected.query == running.query.name
            condition = running.failure.condition if running.failure else ""
            if wanted and expected is not None and condition != expected.condition:
                text = f"query {running.query.name} should end with {expected.condition}, it {_ended(running.failure)}"
                self.failures.append(Failure(text, expected.span, running.query.name))
            elif not wanted and running.failure is not None:
                text = f"query {running.query.name} {_ended(running.failure)}"
                self.failures.append(Failure(text, running.query.sink.span, running.query.name))
        if expected is not None and expected.query not in self.project.queries:
            nearest = did_you_mean(expected.query, self.project.queries)
            self.failures.append(
                Failure(f"no query is called {expected.query}; did you mean {nearest}?", expected.span)
            )

    def _look(self, expectations: Sequence[Expectation]) -> None:
        for expectation in expectations:
            actual, key = self._records(expectation) if expectation.topic else self.rows(expectation)
            if self.golden.update and expectation.file is not None:
                self.golden.write(expectation.file, actual, expectation.ordered)
                continue
            difference = compare(expectation, self.golden.rows(expectation), actual, key, self._types(expectation))
            if difference:
                name = expectation.relation or expectation.topic
                how = "every change" if expectation.history else f"by {', '.join(key)}" if key else "rows"
                head = f"{name} ({how}): ~ differs, - missing, + not expected"
                self.failures.append(Failure(f"{head}\n{difference}", expectation.span, name))

    def _types(self, expectation: Expectation) -> Mapping[str, DataType]:
        if expectation.topic:
            return {}
        return {column.name: column.type for column in expected_relation(self.project, expectation).columns}

    def _records(self, expectation: Expectation) -> tuple[list[Row], Sequence[str]]:
        topic = self._topic_named(expectation.topic, expectation.store, expectation.span)
        return [
            {"key": from_bytes(r.key), "value": from_bytes(r.value), "at": r.at, "partition": r.partition}
            for r in topic.records
        ], ()

    def rows(self, expectation: Expectation) -> tuple[list[Row], Sequence[str]]:
        """The rows of a relation, and its key (empty for a history)."""
        relation = expected_relation(self.project, expectation)
        key = () if expectation.history else relation.primary_key
        if relation.kind in TABLES:
            place = (f"{self.name}/{relation.store}", relation.entity)
            rows = (memory_loader.table_history if expectation.history else memory_loader.table_rows)(*place)
            types = {column.name: column.type for column in relation.columns}
            return [without_values(table_row(row, types), relation) for row in rows], key
        changes = list(changes_of(relation, self._topic(relation)))
        if relation.is_changelog and not expectation.history:
            return folded(changes, relation.primary_key), key
        return changes, key


_STEPS: Mapping[type[Any], Callable[[CaseRun, Any], None]] = MappingProxyType(
    {
        Send: CaseRun.step_send,
        SendTogether: CaseRun.step_send_together,
        Advance: CaseRun.step_advance,
        Wait: CaseRun.step_wait,
        Restart: CaseRun.step_restart,
        Crash: CaseRun.step_crash,
        ExpectNow: CaseRun.step_look,
    }
)
"""Kind of a step → its method."""


def _ended(failure: DsError | None) -> str:
    return f"ended with {failure}" if failure else "runs"


def run_case(
    path: Path, session: Callable[[], SparkSession], *, root: Path | None = None, update: bool = False
) -> CaseResult:
    """Run one case file.

    Args:
        path: of the case.
        session: gives the shared session; called only if a query has to run.
        root: spans show files relative to it.
        update: write golden files instead of comparing with them.

    Returns:
        The result; a :class:`DsError` becomes a failure of the case.
    """
    begin = time.monotonic()
    golden = Golden(update)
    title = path.name
    failures: tuple[Failure, ...] = ()
    try:
        case = load_case(path, root)
        title = case.title
        with case_folder() as folder:
            compiled = compile_case(case, folder / "state")
            failures = compiled.failures
            if not failures and (case.error is None or case.error.query):
                run = CaseRun(session(), case, compiled.project, folder, golden)
                run.run()
                failures = tuple(run.failures)
    except DsError as problem:
        failures = (Failure(str(problem), problem.span),)
    return CaseResult(path, title, time.monotonic() - begin, failures, tuple(golden.written))


@contextmanager
def case_folder() -> Iterator[Path]:
    """A folder for one run's checkpoints and state, deleted at the end of the block."""
    folder = Path(tempfile.mkdtemp(dir=_folders()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=1)
def _folders() -> Path:
    """The folder of all cases of this process, deleted at its end: Spark may still write after the end of a case."""
    return passing_folder("ds-cases-")


def find_cases(places: Sequence[Path]) -> list[Path]:
    """Case files among or below these files and folders, in order, each once."""
    cases: dict[Path, None] = {}
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob("*.case.yaml"))
        cases |= dict.fromkeys(path.resolve() for path in files)
    return list(cases)
