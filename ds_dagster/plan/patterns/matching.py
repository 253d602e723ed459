"""Binding of MATCH_RECOGNIZE: checks of the pattern and of the rows below it, and the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, is_primitive
from ds_dagster.errors import error
from ds_dagster.functions.table import FUNCTIONS
from ds_dagster.plan.binding.scope import Scope, Source, visible
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.binder import ExpressionBinder
from ds_dagster.plan.expressions.field_names import column_of, field_name
from ds_dagster.plan.nodes.match import Definition, Match, RowOrder, Skip
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node
from ds_dagster.plan.patterns.expressions import ALL_ROWS, MatchBinder, MatchValues
from ds_dagster.plan.patterns.pattern import (
    Automaton,
    Choice,
    Pattern,
    Repeat,
    Sequence,
    Variable,
    automaton,
    size,
    variables,
)
from ds_dagster.sql.expressions import (
    FieldAccess,
    MatchRef,
    PatternChoice,
    PatternRepeat,
    PatternSequence,
    PatternVariable,
    UserCall,
)

MOST_STATES = 5_000
"""Most states of an automaton: a part with a quantifier has states for each repetition."""


def bind_match(ref: MatchRef, below: Node, scope: Scope, alias: str) -> Match:
    """The node of a MATCH_RECOGNIZE.

    Args:
        ref: the parsed MATCH_RECOGNIZE.
        below: the rows it reads.
        scope: with its one source.
        alias: internal alias, first part of the names of fields.

    Raises:
        UserError: MATCH_…, PATTERN_…, and those of expressions.
        NotYetError: STATEFUL_CHAIN.
    """
    return _Matching(ref, below, scope, alias).bind()


class _Matching:
    def __init__(self, ref: MatchRef, below: Node, scope: Scope, alias: str) -> None:
        self.ref = ref
        self.below = below
        self.source = scope.sources[0]
        self.alias = alias
        self.scope = scope
        self.span = self.scope.place(ref)
        self.place = self.scope.place(ref.args["pattern"])
        self.values = MatchValues(alias)
        self.pattern = _pattern(ref.args["pattern"])
        self.variables = variables(self.pattern)

    def bind(self) -> Match:
        self._check_below()
        order = self._order()
        self._check_pattern()
        partition = tuple(self._partition(node) for node in self.ref.args.get("partition") or ())
        definitions = self._definitions()
        measures = self._measures({named.name for named in partition})
        if not self.values.found:
            self.values.add("COUNT", ALL_ROWS, None, BIGINT, nullable=False)
        within = self.ref.args.get("within")
        return Match(
            self.below,
            partition,
            order,
            self.pattern,
            definitions,
            self._skip(),
            tuple(self.values.found.values()),
            measures,
            self._skip_variable(),
            within,
        )

    # the rows it reads

    def _check_below(self) -> None:
        check_over("a pattern match", self.below, self.span, relation=self.source.shown)

    def _order(self) -> tuple[RowOrder, ...]:
        """ORDER BY without its first column, which must be event time, ascending."""
        binder = ExpressionBinder(self.scope, "ORDER BY")
        first, *rest = self.ref.args["order"].expressions
        times = self.below.time_fields if self.below.one_source else frozenset[str]()
        bound = binder.expression(first.this)
        if first.args.get("desc") or not isinstance(bound.tree, exp.Column) or bound.tree.name not in times:
            shown = [column_of(name) for name in sorted(times)] or ["its event time, selected by its name"]
            raise binder.refuse("MATCH_ORDER_TIME", first.this, found=binder.shown(first.this), time=shown)
        orders = []
        for item in rest:
            expression = binder.expression(item.this)
            if not is_primitive(expression.type):
                raise binder.refuse("GROUP_BY_NESTED", item.this, name=binder.shown(item.this), type=expression.type)
            orders.append(RowOrder(expression, bool(item.args.get("desc"))))
        return tuple(orders)

    # the pattern

    def _check_pattern(self) -> None:
        if size(self.pattern) > MOST_STATES:
            raise error("PATTERN_TOO_LARGE", span=self.place, size=size(self.pattern), limit=MOST_STATES)
        machine = automaton(self.pattern)
        if machine.can_be_empty():
            raise error("PATTERN_EMPTY", span=self.place)
        if self.ref.args.get("within") is None and machine.needs_row_behind():
            raise error("PATTERN_OPEN_END", span=self.place)
        rule = _SKIP_CHECKS.get(self._skip())
        if rule is not None:
            self._check_skip(machine, rule)

    def _check_skip(self, machine: Automaton, rule: _SkipRule) -> None:
        node = self.ref.args["variable"]
        name = self._known(node)
        reasons = {
            "a match may have no row of it": machine.can_miss(name),
            "it may be the first row of a match, so the search would begin there again": rule.stays(machine, name),
        }
        for reason, applies in reasons.items():
            if applies:
                raise error("PATTERN_SKIP", span=self.scope.place(node), words=rule.words, name=name, reason=reason)

    def _skip(self) -> Skip:
        skip: Skip = self.ref.args["skip"]
        return skip

    def _skip_variable(self) -> str:
        node = self.ref.args.get("variable")
        return str(node.name) if node is not None else ""

    def _known(self, node: exp.Expression) -> str:
        name = str(node.name)
        if name not in self.variables:
            raise error("PATTERN_VARIABLE_UNKNOWN", span=self.scope.place(node), name=name, known=self.variables)
        return name

    # what is computed

    def _partition(self, node: exp.Expression) -> Named:
        binder = ExpressionBinder(self.scope, "PARTITION BY")
        bound = binder.expression(node)
        name = node.name if isinstance(node, exp.Column) else ""
        name = node.expression.name if isinstance(node, FieldAccess) else name
        if not name or not is_primitive(bound.type):
            raise binder.refuse("MATCH_PARTITION", node, expression=binder.shown(node), type=bound.type)
        return Named(field_name(self.alias, name), bound)

    def _definitions(self) -> tuple[Definition, ...]:
        """Definitions in the order of the pattern, since the written order has no meaning."""
        definitions: dict[str, Definition] = {}
        named = [(self._known(item.args["alias"]), item) for item in self.ref.args["definitions"]]
        for name, item in sorted(named, key=lambda pair: self.variables.index(pair[0])):
            written = item.args["alias"]
            if name in definitions:
                raise error("PATTERN_VARIABLE_TWICE", span=self.scope.place(written), name=name)
            binder = MatchBinder(self.scope, "DEFINE", self.variables, self.values, name)
            condition = binder.condition(item.this)
            self._check_fixed(binder, item.this, condition)
            self._check_own(binder, item.this, condition)
            definitions[name] = Definition(name, condition)
        return tuple(definitions.values())

    def _check_fixed(self, binder: MatchBinder, node: exp.Expression, condition: BoundExpression) -> None:
        """Refuse functions with another value each time: a row that is evaluated again after a restart must give the
        same result."""
        trees = [condition.tree, *(v.argument.tree for v in self.values.found.values() if v.argument is not None)]
        for tree in trees:
            for call in tree.find_all(exp.Anonymous):
                if not FUNCTIONS[str(call.this)].deterministic:
                    raise binder.refuse("PATTERN_NOT_FIXED", node, function=str(call.this))

    def _check_own(self, binder: MatchBinder, node: exp.Expression, condition: BoundExpression) -> None:
        """Refuse functions of the user: conditions are evaluated inside the operator, where they do not run."""
        call = condition.tree.find(UserCall)
        if call is not None:
            instead = "compute it in the sub-select that the pattern reads"
            raise binder.refuse("FUNCTION_NOT_YET", node, name=f"{call.args['function']} in DEFINE", instead=instead)

    def _measures(self, taken: set[str]) -> tuple[Named, ...]:
        binder = MatchBinder(self.scope, "MEASURES", self.variables, self.values)
        measures = []
        for item in self.ref.args["measures"]:
            name = field_name(self.alias, item.alias)
            if name in taken:
                place = self.scope.place(item.args["alias"])
                raise error("DUPLICATE_COLUMN", span=place, name=item.alias, relation="MATCH_RECOGNIZE")
            taken.add(name)
            measures.append(Named(name, binder.expression(item.this)))
        return tuple(measures)


def columns_of(match: Match) -> Source:
    """A match as a source with its columns; the caller sets ``alias`` and ``shown``."""
    pairs = [(column_of(named.name), named.field) for named in (*match.partition, *match.measures)]
    return Source("", "", visible(pairs))


@dataclass(frozen=True, slots=True)
class _SkipRule:
    """``stays``: whether the search could continue at the row where it began, for ever."""

    words: str
    stays: Callable[[Automaton, str], bool]


_SKIP_CHECKS: Mapping[str, _SkipRule] = MappingProxyType(
    {
        "to_first": _SkipRule("TO FIRST", Automaton.can_begin_with),
        "to_last": _SkipRule("TO LAST", Automaton.can_begin_with_last),
    }
)


def _pattern(node: exp.Expression) -> Pattern:
    return _PATTERNS[type(node)](node)


_PATTERNS: Mapping[type[exp.Expression], Callable[[exp.Expression], Pattern]] = MappingProxyType(
    {
        PatternVariable: lambda node: Variable(str(node.this.name)),
        PatternSequence: lambda node: Sequence(tuple(map(_pattern, node.expressions))),
        PatternChoice: lambda node: Choice(tuple(map(_pattern, node.expressions))),
        PatternRepeat: lambda node: Repeat(
            _pattern(node.this), node.args["least"], node.args.get("most"), bool(node.args.get("reluctant"))
        ),
    }
)
