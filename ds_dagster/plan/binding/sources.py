"""Sources of FROM: relations become scans, with windows and sub-selects over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.catalog.catalog import Catalog
from ds_dagster.catalog.declaring.declared import KIND_WORDS, qualify
from ds_dagster.catalog.declaring.inference import ReadChoices, resolve_source
from ds_dagster.catalog.reading.starting import check_reading
from ds_dagster.catalog.records import Findings
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.row_log import check_log
from ds_dagster.catalog.store import StoreKind
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.functions.table import FUNCTIONS
from ds_dagster.names import QualifiedName, safe_name
from ds_dagster.plan.binding.first_rows import first_rows
from ds_dagster.plan.binding.scope import Scope, Source, Visible, visible
from ds_dagster.plan.binding.virtual import VirtualRelation, find_virtual
from ds_dagster.plan.checks.constraints import bound_constraints, bound_quarantine, output_fields
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.field_names import column_of, field_name, is_total_key, unused_alias
from ds_dagster.plan.expressions.record_fields import record_fields
from ds_dagster.plan.nodes.node import Node
from ds_dagster.plan.nodes.rows import Project
from ds_dagster.plan.nodes.scan import Scan, SourceTime
from ds_dagster.plan.nodes.window import Window, WindowFunction
from ds_dagster.plan.patterns.matching import bind_match, columns_of
from ds_dagster.settings import Settings
from ds_dagster.sql.expressions import MatchRef, QueryTree, RelationRef, WindowRef
from ds_dagster.sql.generator import duration_text
from ds_dagster.sql.lowering import span_of
from ds_dagster.sql.statements import Context, Property, WrittenName

RESERVED_ALIASES = frozenset(
    (
        "group",
        "computed",
        "first",
        *(name.lower() for name, function in FUNCTIONS.items() if function.kind == "aggregate"),
    )
)
"""Aliases of internal names that aggregates and other steps make."""

MOST_WINDOWS = 20_000
"""Most windows one record may be in: a week by the minute is 10,080."""


@dataclass(frozen=True, slots=True)
class World:
    """The project that a query is bound against."""

    catalog: Catalog
    settings: Settings
    kinds: Mapping[str, StoreKind]
    virtuals: Mapping[QualifiedName, VirtualRelation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """One source, bound.

    Attributes:
        node: its plan.
        source: its names.
        relation: left-most relation in it.
        choices: properties of the WITH after a relation.
        window: the window over it, None without one.
    """

    node: Node
    source: Source
    relation: Relation
    choices: ReadChoices = field(default_factory=ReadChoices)
    window: Window | None = None


@dataclass(slots=True)
class Naming:
    """Internal names of one query: aliases and Spark source names, each once.

    ``application``: the query's application, empty without one. All its queries give a relation the same source name,
    so that it is scanned once. ``kept``: see ``Settings.source_names``.
    """

    application: str = ""
    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taken: set[str] = field(default_factory=lambda: set(RESERVED_ALIASES))
    scanned: dict[str, int] = field(default_factory=dict)

    def alias(self, written: str) -> str:
        """An internal alias: the written one, with a number if it is taken."""
        name = unused_alias(written, self.taken)
        self.taken.add(name)
        return name

    def source_name(self, relation: QualifiedName) -> str:
        """Name of a Spark source: that of its relation, with a number from the second scan on."""
        base = self.kept.get(str(relation)) or safe_name("_".join(relation.parts))
        number = self.scanned[base] = self.scanned.get(base, 0) + 1
        return base if number == 1 else f"{base}_{number}"


SubSelect = Callable[[QueryTree, str], tuple[Project, Relation]]


class SourceBinder:
    """Binds the sources of one query.

    Args:
        world: catalog, settings, store kinds.
        context: database and schema that USE has set.
        span: position of nodes without one.
        naming: internal names, shared by all SELECTs of the query.
        findings: collects mistakes in properties.
        sub_select: binds a SELECT in FROM to a projection whose fields are ``alias$column``.
    """

    def __init__(
        self, world: World, context: Context, span: Span, naming: Naming, findings: Findings, sub_select: SubSelect
    ) -> None:
        self.world = world
        self.context = context
        self.span = span
        self.naming = naming
        self.findings = findings
        self.sub_select = sub_select

    def bind(self, node: exp.Expression) -> Planned:
        """Bind a source of FROM or JOIN."""
        return self._bind(node, node.alias, ())

    def _bind(self, node: exp.Expression, alias: str, outer: Sequence[Property]) -> Planned:
        properties = _merged(node.args.get("properties") or (), outer)
        if isinstance(node, RelationRef):
            return self._relation(node, alias, properties)
        if isinstance(node, WindowRef):
            return self._window(node, alias, properties)
        if isinstance(node, MatchRef):
            return self._match(node, alias, properties)
        if isinstance(node, exp.Subquery):
            return self._sub_select(node, alias, properties)
        raise error("SOURCE_UNSUPPORTED", span=self._place(node), source=type(node).__name__.upper())

    def _place(self, node: exp.Expression) -> Span:
        return span_of(node, self.span)

    def _relation(self, node: RelationRef, alias: str, properties: Sequence[Property]) -> Planned:
        virtual = self.virtual(node)
        if virtual is not None:
            return self._virtual(node, alias, virtual, properties)
        relation = self.relation(node)
        if relation.kind in ("materialized_view", "table"):
            kind = KIND_WORDS[relation.kind]
            raise error("SOURCE_IS_VIEW", span=self._place(node), kind=kind, relation=relation.name.name)
        lookup = next((item for item in properties if item.name == "lookup.cache.millis"), None)
        if lookup is not None:
            raise error("LOOKUP_PROPERTY_OF_STREAM", span=lookup.span, relation=relation.name.name)
        store = self.world.kinds[self.world.catalog.store(relation.store).kind]
        choices, diagnostics = resolve_source(relation, properties, self.world.kinds, store.name)
        self.findings.extend(diagnostics)
        self.findings.extend(check_reading(store, choices, self._place(node)))
        if choices.log is not None:
            check_log(choices.log, relation, self.world.catalog, self.world.kinds)
        scan = self._constrained(self._scan(relation, alias, choices, store))
        columns = visible((c.name, f) for c, f in zip(relation.columns, scan.output, strict=False))
        beside = {column_of(f.name): f for f in scan.record_fields}
        source = Source(alias, relation.name.name, columns, scan.rowtime_field, beside)
        return Planned(scan, source, relation, choices)

    def relation(self, node: exp.Expression) -> Relation:
        """The relation a reference names.

        Raises:
            UserError: UNKNOWN_RELATION.
        """
        return self.world.catalog.relation(self._qualified(node), self._place(node))

    def _qualified(self, node: exp.Expression) -> QualifiedName:
        return qualify(written_name(node, self._place(node)), self.context, self.world.settings)

    def virtual(self, node: exp.Expression) -> VirtualRelation | None:
        """The virtual relation a reference names, None for an ordinary one.

        Raises:
            UserError: VIRTUAL_OF_ANOTHER.
        """
        return find_virtual(self.world.virtuals, self._qualified(node), self.naming.application, self._place(node))

    def _virtual(
        self, node: exp.Expression, alias: str, virtual: VirtualRelation, properties: Sequence[Property]
    ) -> Planned:
        """Rows of a virtual relation under the names of this query."""
        if properties:
            raise error("VIRTUAL_READ_WITH", span=self._place(node), relation=virtual.name.name)
        projected = virtual.read_as(self.naming.alias(alias))
        columns = _visible(projected)
        return Planned(projected, Source(alias, virtual.name.name, columns), virtual.relation)

    def _scan(self, relation: Relation, alias: str, choices: ReadChoices, kind: StoreKind) -> Scan:
        source_name = self.naming.source_name(relation.name)
        internal = self.naming.alias(source_name if self.naming.application else alias)
        time = choices.event_time
        column = None if time.column is None else field_name(internal, time.column)
        return Scan(
            relation,
            internal,
            source_name,
            SourceTime(column, time.format, choices.lateness_millis, choices.idle_millis),
            choices.start.position,
            choices.bad_records,
            choices.max_records_per_batch,
            starting_timestamp=choices.start.timestamp,
            starting_offsets=choices.start.offsets,
            data_loss=choices.data_loss,
            record_fields=record_fields(internal, relation, kind),
            rowtime=True,
            slot=choices.slot,
            log=choices.log,
        )

    def _constrained(self, scan: Scan) -> Scan:
        """The scan with the constraints of a declared relation; rows of a result were checked when they were
        written."""
        relation = scan.relation
        if not relation.declared or not relation.constraints:
            return scan
        fields, functions = output_fields(relation, scan.output), self.world.catalog.functions
        constraints = bound_constraints(relation, fields, functions, self.findings)
        log = bound_quarantine(relation, self.world, records=True)
        return replace(scan, constraints=constraints, quarantine=log)

    def _window(self, node: WindowRef, alias: str, properties: Sequence[Property]) -> Planned:
        function: WindowFunction = node.args["function"]
        size, step = int(node.args["size_millis"]), int(node.args["step_millis"] or 0)
        self._check_step(node, function, size, step)
        inner = self._bind(node.this, alias, properties)
        inner = replace(inner, node=first_rows(inner.node))
        check_over("a window", inner.node, self._place(node), relation=inner.source.shown)
        window = Window(inner.node, self.naming.alias(f"{alias}_window"), size, function, step)
        fields = {f.name: f for f in window.output}
        bounds = visible((("window_start", fields[window.start]), ("window_end", fields[window.end])))
        columns = MappingProxyType({**inner.source.columns, **bounds})
        return replace(inner, node=window, source=replace(inner.source, columns=columns), window=window)

    def _check_step(self, node: WindowRef, function: str, size: int, step: int) -> None:
        if function == "CUMULATE" and size % step:
            shown = {"size": duration_text(size), "step": duration_text(step)}
            raise error("WINDOW_STEP", span=self._place(node), **shown)
        windows = -(-size // step) if step else 1
        if windows > MOST_WINDOWS:
            raise error(
                "WINDOWS_TOO_MANY", span=self._place(node), function=function, windows=windows, limit=MOST_WINDOWS
            )

    def _match(self, node: MatchRef, alias: str, properties: Sequence[Property]) -> Planned:
        inner = self._bind(node.this, node.this.alias, properties)
        scope = Scope(self.span, [inner.source], functions=self.world.catalog.functions)
        match = bind_match(node, inner.node, scope, self.naming.alias(alias))
        source = replace(columns_of(match), alias=alias, shown=alias)
        return Planned(match, source, inner.relation, inner.choices)

    def _sub_select(self, node: exp.Subquery, alias: str, properties: Sequence[Property]) -> Planned:
        if properties:
            raise error("CLAUSE_UNSUPPORTED", span=properties[0].span, clause="WITH after a sub-select")
        internal = self.naming.alias(alias)
        tree: QueryTree = node.this
        project, relation = self.sub_select(tree, internal)
        columns = _visible(project)
        return Planned(project, Source(alias, alias, columns), relation)


def _visible(projected: Project) -> Mapping[str, Visible]:
    """Columns of a sub-select, without the key of a total."""
    return visible((column_of(field_.name), field_) for field_ in projected.output if not is_total_key(field_.name))


def written_name(node: exp.Expression, place: Span) -> WrittenName:
    """The name a RelationRef was written with."""
    parts = (node.args.get("catalog"), node.args.get("db"), node.this)
    return WrittenName(tuple(part.name for part in parts if part is not None), place)


def _merged(inner: Sequence[Property], outer: Sequence[Property]) -> tuple[Property, ...]:
    """Properties after a relation and after the window around it; the outer ones win."""
    names = {item.name for item in outer}
    return (*(item for item in inner if item.name not in names), *outer)
