"""Statement → bound query, in two phases: the meaning of the SELECT, then its sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal, cast

from ds_dagster.catalog.declaring.builder import OF_SELECT
from ds_dagster.catalog.declaring.declared import NamedQuery
from ds_dagster.catalog.declaring.inference import QueryChoices, check_insert_kind, infer_sink, resolve_query_properties
from ds_dagster.catalog.declaring.relations import pull_for_store
from ds_dagster.catalog.io_spec import RefreshMode
from ds_dagster.catalog.properties.spec import property_index
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.reserved_columns import RESERVED_COLUMNS
from ds_dagster.datatypes import ArrayType, DataType, StructType, is_primitive
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import DsError, error
from ds_dagster.names import QualifiedName
from ds_dagster.plan.binding.grouping import window_of
from ds_dagster.plan.binding.insert_columns import in_columns
from ds_dagster.plan.binding.rewrites import rewrite
from ds_dagster.plan.binding.select import SelectBinder
from ds_dagster.plan.binding.selected import RefusedSelectError, Selected, SelectItem, project
from ds_dagster.plan.binding.sources import World
from ds_dagster.plan.binding.virtual import VirtualRelation, virtual_relation
from ds_dagster.plan.checks.constraints import bound_constraints, bound_quarantine, output_fields
from ds_dagster.plan.checks.expiry import STATE_TTL, expiring
from ds_dagster.plan.checks.kept_types import kept_types
from ds_dagster.plan.checks.late_rows import keeps_late
from ds_dagster.plan.checks.realtime import check_realtime
from ds_dagster.plan.checks.repeatable import not_repeatable
from ds_dagster.plan.checks.row_errors import row_error_log
from ds_dagster.plan.checks.temporal import unused_temporal_setting
from ds_dagster.plan.checks.unbounded import warn_unbounded
from ds_dagster.plan.expressions.arithmetic import widens
from ds_dagster.plan.expressions.binder import Typed, widened
from ds_dagster.plan.identity.fingerprint import earlier_signatures, fingerprint, state_signature
from ds_dagster.plan.nodes.delta import Fold
from ds_dagster.plan.nodes.node import BoundExpression, Named
from ds_dagster.plan.nodes.rows import Project, Sink
from ds_dagster.plan.nodes.scan import Scan
from ds_dagster.plan.query import POOL, BoundQuery, Part
from ds_dagster.plan.state_store import STATE_STORE, check_state_store, is_chosen, pinned_store
from ds_dagster.settings import Settings
from ds_dagster.sql.expressions import QueryTree
from ds_dagster.sql.statements import CreateAsSelect, InsertInto

QUERY_NAME = "query.name"
TOTAL_COLUMN = "all_rows"
"""Column that CREATE … AS adds to a total without a constant in its SELECT list: the key, always TRUE."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of binding one statement: the query, or None with errors; warnings come with either."""

    query: BoundQuery | None
    diagnostics: tuple[Diagnostic, ...] = ()


def default_name(relation: QualifiedName, settings: Settings) -> str:
    """Name of the query that fills a relation: short in the default database and schema, else qualified. It is part
    of the job's identity, so it depends on nothing else in the project."""
    default = (settings.database.lower(), settings.schema.lower())
    return relation.name if (relation.database, relation.schema) == default else str(relation)


def bind_query(named: NamedQuery, world: World) -> Outcome:
    """Bind CREATE … AS or INSERT INTO. Never raises for mistakes of the user."""
    findings = Findings()
    query = _Binder(named, world, findings).bind()
    diagnostics = tuple(findings.diagnostics)
    failed = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    return Outcome(None if failed else query, diagnostics)


def bind_virtual(
    target: QualifiedName, statement: CreateAsSelect, world: World
) -> tuple[VirtualRelation | None, tuple[Diagnostic, ...]]:
    """Bind CREATE VIRTUAL … AS: the relation, or None with errors. Never raises for mistakes of the user."""
    findings, body, origin = Findings(), statement.body, statement.origin
    choices, diagnostics = resolve_query_properties(body.query_properties, world.kinds)
    findings.extend(diagnostics)
    if body.partition_by:
        findings.add(error("VIRTUAL_PROPERTIES", span=body.partition_by[0].span, name=statement.name))
    for item in body.query_properties:
        if item.name in choices.values and item.name not in OF_SELECT:
            findings.add(error("VIRTUAL_QUERY_WITH", span=item.span, name=statement.name, property=item.name))
    binder = SelectBinder(world, origin.context, body.span, choices, findings, origin.application)
    try:
        selected, relation = binder.sub_select(cast("QueryTree", body.tree), "virtual")
        virtual = virtual_relation(target, statement, selected, relation, findings)
    except DsError as problem:
        findings.add(problem)
    except RefusedSelectError:
        pass
    return None if findings.failed else virtual, tuple(findings.diagnostics)


class _Binder:
    def __init__(self, named: NamedQuery, world: World, findings: Findings) -> None:
        self.target = named.target
        self.statement = named.statement
        self.world = world
        self.findings = findings

    def bind(self) -> BoundQuery | None:
        body = self.statement.body
        choices, diagnostics = resolve_query_properties(body.query_properties, self.world.kinds)
        self.findings.extend(diagnostics)
        context = self.statement.origin.context
        binder = SelectBinder(self.world, context, body.span, choices, self.findings, self.statement.origin.application)
        try:
            selected = binder.bind(cast("QueryTree", body.tree))
        except RefusedSelectError:
            self._check_properties()
            return None
        self._check_emit(choices, selected)
        unused = unused_temporal_setting(body.query_properties, selected.node, self.statement.origin.span)
        if unused is not None:
            self.findings.add(unused)
        if isinstance(self.statement, CreateAsSelect):
            root = self._create(self.statement, selected)
        else:
            root = self._insert(self.statement, selected)
        if root is None or self.findings.failed:
            return None
        folded = root
        final = self.findings.collect(lambda: self._expiring(folded, choices))
        if final is None:
            return None
        warn_unbounded(final, self.findings, self.statement.body.span)
        return self._query(final, choices)

    def _check_properties(self) -> None:
        """Report mistakes in WITH of CREATE … AS whose SELECT is refused."""
        statement, world = self.statement, self.world
        if isinstance(statement, CreateAsSelect):
            index = property_index(world.kinds)
            pull_for_store(statement, "sink", self.target, world.settings, world.catalog, index, self.findings)

    def _check_emit(self, choices: QueryChoices, selected: Selected) -> None:
        if "emit.mode" in choices.values and window_of(selected.node) is None:
            span = next(p.span for p in self.statement.body.query_properties if p.name == "emit.mode")
            self.findings.add(error("EMIT_WITHOUT_WINDOW", span=span))

    # CREATE … AS

    def _create(self, statement: CreateAsSelect, selected: Selected) -> Sink | None:
        selected = selected.with_total(TOTAL_COLUMN) if selected.total else selected
        projected = project(selected)
        self._check_view(statement, selected.items)
        output = [
            Column(item.name, item.expression.type, item.expression.nullable, item.span) for item in selected.items
        ]
        world = self.world
        relation, diagnostics = infer_sink(
            statement,
            output,
            _outside(projected),
            selected.key,
            selected.relation,
            world.catalog,
            world.settings,
            world.kinds,
        )
        self.findings.extend(diagnostics)
        if relation is None or self.findings.failed:
            return None
        return self._sink(projected, relation, tuple(item.name for item in selected.items))

    def _sink(self, projected: Project, relation: Relation, columns: tuple[str, ...]) -> Sink:
        """The root, with the relation's constraints."""
        sink, functions = Sink(_folded(projected), relation, columns), self.world.catalog.functions
        fields = output_fields(relation, tuple(replace(f, name=n) for f, n in zip(sink.output, columns, strict=True)))
        constraints = bound_constraints(relation, fields, functions, self.findings)
        log = self.findings.collect(lambda: bound_quarantine(relation, self.world, records=False))
        return replace(sink, constraints=constraints, quarantine=log)

    def _check_view(self, statement: CreateAsSelect, items: Sequence[SelectItem]) -> None:
        if statement.kind != "materialized_view":
            return
        for item in items:
            if not is_primitive(item.expression.type):
                example = _part(item.name, item.expression.type)
                type_ = item.expression.type
                problem = error("VIEW_COLUMN_NESTED", span=item.span, name=item.name, type=type_, example=example)
                self.findings.add(problem)

    # INSERT INTO

    def _insert(self, statement: InsertInto, selected: Selected) -> Sink | None:
        relation = self.findings.collect(lambda: self.world.catalog.relation(self.target, statement.target.span))
        if relation is None:
            return None
        if relation.kind == "table" and not relation.declared:
            span = statement.target.span
            self.findings.add(error("INSERT_INTO_LOADED_TABLE", span=span, relation=relation.name.name))
            return None
        if statement.columns:
            placed = self.findings.collect(lambda: in_columns(selected, statement.columns, relation))
            if placed is None:
                return None
            selected = placed
        if selected.total:
            self.findings.add(error("TOTAL_WITHOUT_KEY", span=self.statement.body.span, relation=relation.name.name))
            return None
        projected = project(selected)
        kinds = Findings()
        check_insert_kind(relation, _outside(projected), kinds)
        self.findings.extend(replace(f, span=f.span or statement.target.span) for f in kinds.diagnostics)
        if statement.body.partition_by:
            span = statement.body.partition_by[0].span
            self.findings.add(error("INSERT_PARTITION_BY", span=span, relation=relation.name.name))
        if len(selected.items) != len(relation.columns):
            names = [column.name for column in relation.columns]
            problem = error(
                "INSERT_COLUMN_COUNT",
                span=statement.target.span,
                relation=relation.name.name,
                found=len(selected.items),
                expected=len(names),
                columns=names,
            )
            self.findings.add(problem)
            return None
        return self._inserted(statement, selected, projected, relation)

    def _inserted(
        self, statement: InsertInto, selected: Selected, projected: Project, relation: Relation
    ) -> Sink | None:
        columns: list[Named] = []
        placed: dict[str, str] = {}
        for position, (item, target) in enumerate(zip(selected.items, relation.columns, strict=True), start=1):
            self._check_type(position, item, target, relation)
            if target.name in RESERVED_COLUMNS:
                self.findings.add(error("COLUMN_NAME_RESERVED", span=target.span, name=target.name))
            columns.append(Named(target.name, _as(item.expression, target.type)))
            placed.setdefault(item.name, target.name)
        if self.findings.failed:
            return None
        key = tuple(placed[name] for name in selected.key)
        if projected.changelog != "append" and sorted(key) != sorted(relation.primary_key):
            name, primary = relation.name.name, relation.primary_key
            span = statement.target.span
            self.findings.add(error("INSERT_KEY", span=span, relation=name, key=primary, found=selected.key))
            return None
        projected = replace(projected, columns=tuple(columns), key_names=key)
        return self._sink(projected, relation, tuple(named.name for named in columns))

    def _check_type(self, position: int, item: SelectItem, target: Column, relation: Relation) -> None:
        if not widens(item.expression.type, target.type):
            problem = error(
                "INSERT_TYPE",
                span=item.span,
                position=position,
                relation=relation.name.name,
                found=item.expression.type,
                expected=target.type,
                name=item.name,
                target=target.name,
            )
            self.findings.add(problem)

    # the record

    def _expiring(self, root: Sink, choices: QueryChoices) -> Sink:
        ttl = choices.values.get(STATE_TTL)
        if not ttl:
            return root
        span = next(p.span for p in self.statement.body.query_properties if p.name == STATE_TTL)
        return expiring(root, int(ttl), span)

    def _query(self, root: Sink, choices: QueryChoices) -> BoundQuery | None:
        relation = root.relation
        settings = {name: value for name, value in choices.values.items() if name != QUERY_NAME}
        refresh = _refresh(relation)
        late = self.findings.collect(lambda: keeps_late(root, choices, self.statement.origin.context, self.world))
        root = rewrite(late or root)
        for problem in (*not_repeatable(root, self.statement.body.span), *kept_types(root, self.statement.body.span)):
            self.findings.add(problem)
        log = self.findings.collect(lambda: row_error_log(root, choices, self.world))
        in_application = bool(self.statement.origin.application)
        if not in_application:  # an application has one store for all its queries
            self.findings.collect(lambda: self._check_state_store(root, settings))
        for problem in check_realtime(root, log, self.world, self._place, in_application=in_application):
            self.findings.add(problem)
        self._check_stores(root, refresh)
        execution = str(relation.option("execution") or "engine")
        self.findings.collect(lambda: self._check_pool(settings, execution))
        if self.findings.failed:
            return None
        store_kinds = self.world.catalog.store_kinds
        pinned = pinned_store(root, str(settings.get(STATE_STORE, "")))
        part = Part(
            name=choices.name or default_name(self.target, self.world.settings),
            statement=self.statement,
            root=root,
            refresh=refresh,
            fingerprint=fingerprint(root, refresh=refresh, settings=_meaning(root, settings), store_kinds=store_kinds),
            state_signature=state_signature(root, store_kinds=store_kinds, state_store=pinned),
            earlier_signatures=earlier_signatures(root, store_kinds=store_kinds, state_store=pinned),
            lineage=MappingProxyType(dict(root.all_lineage())),
            settings=MappingProxyType(settings),
            error_log=log,
        )
        return BoundQuery.of(part, execution=execution)

    @property
    def _place(self) -> Span:
        """Where the statement names the relation that it fills."""
        statement = self.statement
        return statement.target.span if isinstance(statement, InsertInto) else statement.name.span

    def _check_pool(self, settings: Mapping[str, object], execution: str) -> None:
        """Refuse a compute pool that is not declared, or for a query that no engine runs (COMPUTE_POOL_UNKNOWN,
        COMPUTE_POOL_REFUSED, COMPUTE_POOL_OF_STEP)."""
        pools = self.world.catalog.pools
        if POOL not in settings or pools is None:
            return
        written = next(p for p in self.statement.body.query_properties if p.name == POOL)
        self.world.catalog.pool(str(settings[POOL]), written.value_span)
        if execution == "step":
            raise error("COMPUTE_POOL_OF_STEP", span=written.span, relation=self.target.name)

    def _check_state_store(self, root: Sink, settings: Mapping[str, object]) -> None:
        written = next((p for p in self.statement.body.query_properties if p.name == STATE_STORE), None)
        if written is not None and STATE_STORE in settings:
            check_state_store(root, str(settings[STATE_STORE]), written.span)

    def _check_stores(self, root: Sink, refresh: RefreshMode) -> None:
        """Report what stores refuse to read or to write, before a query starts."""
        catalog, kinds = self.world.catalog, self.world.kinds
        sink, findings = catalog.store(root.relation.store), Findings()
        findings.collect(lambda: kinds[sink.kind].write_spec(sink, root.relation, refresh))
        for scan in (node for node in root.walk() if isinstance(node, Scan)):
            store = catalog.store(scan.relation.store)
            read = partial(kinds[store.kind].read_spec, store, scan.relation, scan.reading, None)
            findings.collect(read)
        span = self.statement.body.span
        self.findings.extend(replace(finding, span=finding.span or span) for finding in findings.diagnostics)


def _meaning(root: Sink, settings: Mapping[str, object]) -> Mapping[str, object]:
    """Properties of QUERY WITH that decide how the query runs. A store for its state that it has anyway is left out."""
    left_out = {POOL} if is_chosen(root, str(settings.get(STATE_STORE, ""))) else {POOL, STATE_STORE}
    return {name: value for name, value in settings.items() if name not in left_out}


def _outside(projected: Project) -> Literal["append", "upsert"]:
    """Changelog kind of the rows for a sink: rows with weights are folded to upserts by key."""
    return "append" if projected.changelog == "append" else "upsert"


def _folded(projected: Project) -> Project | Fold:
    return Fold(projected, projected.key_names) if projected.changelog == "weighted" else projected


REFRESH_MODES: Mapping[str, RefreshMode] = MappingProxyType(
    {"incremental": "incremental", "full": "full", "continuous": "continuous"}
)


def _refresh(relation: Relation) -> RefreshMode:
    if relation.kind != "table":
        return "continuous"
    return REFRESH_MODES[str(relation.option("refresh.mode") or "incremental")]


def _as(expression: BoundExpression, target: DataType) -> BoundExpression:
    if expression.type == target:
        return expression
    tree = widened(Typed(expression.tree, expression.type, expression.nullable), target)
    return BoundExpression(tree, target, expression.nullable)


def _part(name: str, type_: DataType) -> str:
    if isinstance(type_, StructType):
        return f"{name}->{type_.fields[0].name}"
    return f"{name}[1]" if isinstance(type_, ArrayType) else f"{name}['key']"
