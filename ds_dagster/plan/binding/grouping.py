"""GROUP BY and aggregates: the groups, and the expressions that may be selected with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, BOOLEAN, is_comparable, is_hashable
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.plan.binding.grouping_sets import GroupingSets, calls_of_grouping
from ds_dagster.plan.binding.scope import Scope
from ds_dagster.plan.binding.selected import SelectItem
from ds_dagster.plan.binding.sources import Naming, Planned
from ds_dagster.plan.checks.stacking import check_over
from ds_dagster.plan.expressions.binder import ExpressionBinder, column
from ds_dagster.plan.expressions.calls import Aggregates, aggregate_name
from ds_dagster.plan.expressions.field_names import column_of, is_total_key, own_field, total_key
from ds_dagster.plan.expressions.printing import expression_text, identity_text
from ds_dagster.plan.nodes.aggregate import Aggregate
from ds_dagster.plan.nodes.delta import DeltaAggregate
from ds_dagster.plan.nodes.node import BoundExpression, Named, Node
from ds_dagster.plan.nodes.rows import Filter
from ds_dagster.plan.nodes.weights import has_weights, weighted
from ds_dagster.plan.nodes.window import Window, Windowed
from ds_dagster.sql.expressions import without_parentheses


def is_grouped(tree: exp.Select) -> bool:
    """Whether a SELECT groups: by GROUP BY, or by an aggregate without it."""
    if tree.args.get("group") or tree.args.get("having"):
        return True
    return any(_has_aggregate(item) for item in tree.expressions)


def _has_aggregate(item: exp.Expression) -> bool:
    inner = item.this if isinstance(item, exp.Alias) else item
    if isinstance(inner, exp.Column | exp.Star):
        return False
    for node in inner.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.Expression) and aggregate_name(node) and not _is_over(node):
            return True
    return False


def _is_over(call: exp.Expression) -> bool:
    """Whether an aggregate is called with OVER, which does not group."""
    holder = call.parent.parent if isinstance(call.parent, exp.Filter) else call.parent
    return isinstance(holder, exp.Window)


class Grouping:
    """The groups of one SELECT and its aggregates. ``held``: see
    :class:`~ds_dagster.plan.nodes.aggregate.Aggregate`."""

    def __init__(
        self, scope: Scope, tree: exp.Select, source: Planned, below: Node, naming: Naming, *, held: bool = True
    ) -> None:
        self._held = held
        self.scope = scope
        self.tree = tree
        self.source = source
        self.below = below
        self.aggregates = Aggregates()
        self.group: list[Named] = []
        self.window: Window | Windowed | None = None
        self.beside: frozenset[str] = frozenset()
        """Fields of steps above the groups."""
        self._by_text: dict[str, Named] = {}
        self._nulled: set[str] = set()
        """Groups that are NULL in the rows of some sets."""
        self._kinds: set[type[exp.Expression]] = {exp.Column}
        group = tree.args.get("group")
        self.sets: GroupingSets | None = None
        if group is not None and group.args.get("grouping_sets"):
            self.sets = GroupingSets(group, own_field(naming.alias("grouping"), "set"))
        self.span = scope.place(tree.args.get("group") or tree)

    def bind(self) -> None:
        """Bind GROUP BY.

        Raises:
            UserError: WINDOW_NOT_GROUPED, GROUP_BY_…, HAVING_WITHOUT_GROUP, GROUPING_ARGUMENT.
            NotYetError: STATEFUL_CHAIN.
        """
        check_over("a step", self.below, self.span)
        group = self.tree.args.get("group")
        if group is None and not any(_has_aggregate(item) for item in self.tree.expressions):
            raise error("HAVING_WITHOUT_GROUP", span=self.scope.place(self.tree.args["having"]))
        aliases = {item.alias: item.this for item in self.tree.expressions if isinstance(item, exp.Alias)}
        binder = ExpressionBinder(self.scope, "GROUP BY")
        for place, item in enumerate(group.expressions if group is not None else ()):
            self._add(binder, self._meant(item, aliases), place)
        if self.sets is not None:
            self._add_sets(self.sets, binder)
        if not self.group:
            everything = BoundExpression(exp.Boolean(this=True), BOOLEAN, nullable=False)
            self.group.append(Named(total_key("group"), everything))
        self._find_window()

    def keyed(self, items: tuple[SelectItem, ...], *, inner: bool) -> tuple[SelectItem, ...]:
        """The items of a SELECT over its groups. The first constant in the list of a total, which has one row, becomes
        its key."""
        constant_item = next((item for item in items if _is_constant(item.expression)), None)
        if inner or constant_item is None or not is_total_key(self.group[0].name):
            return items
        key = self.group[0] = Named(self.group[0].name, constant_item.expression)
        constant = BoundExpression(column(key.name), constant_item.expression.type, nullable=False)
        return tuple(replace(item, expression=constant) if item is constant_item else item for item in items)

    def check_set(self, items: Sequence[SelectItem], *, inner: bool) -> None:
        """Refuse GROUPING SETS whose number is not selected: rows of different sets may differ in it only.

        Raises:
            UserError: GROUPING_NOT_SELECTED.
        """
        if self.sets is None or inner or any(item.expression.tree == column(self.sets.name) for item in items):
            return
        shown = ", ".join(expression_text(tree, lambda name: name) for tree in self.sets.partial)
        raise error("GROUPING_NOT_SELECTED", span=self.span, call=f"GROUPING_ID({shown})")

    def _meant(self, item: exp.Expression, aliases: Mapping[str, exp.Expression]) -> exp.Expression:
        """The expression of the SELECT list that an alias names, unless a source has a column of that name."""
        written = isinstance(item, exp.Column) and not item.table and item.name in aliases
        if written and not any(item.name in source.columns for source in self.scope.sources):
            return aliases[item.name]
        return item

    def _add_sets(self, sets: GroupingSets, binder: ExpressionBinder) -> None:
        """Each row once per set, grouped by the set's number too; puts the values of GROUPING into the scope."""
        self.below = sets.expanded(self.below)
        self.group.append(sets.key)
        self._by_text[identity_text(column(sets.name))] = sets.key
        written = self.tree.args["group"].expressions
        having = self.tree.args.get("having")
        for call in calls_of_grouping([*self.tree.expressions, *([having] if having is not None else [])]):
            arguments = [without_parentheses(argument) for argument in call.expressions]
            unknown = next((argument for argument in arguments if argument not in written), None)
            if unknown is not None:
                shown = binder.shown(unknown)
                raise binder.refuse("GROUPING_ARGUMENT", unknown, function=str(call.this), expression=shown)
            if arguments:
                places = [written.index(argument) for argument in arguments]
                self.scope.values[id(call)] = sets.grouping(places)

    def _add(self, binder: ExpressionBinder, item: exp.Expression, place: int) -> None:
        bound = binder.expression(without_parentheses(item))
        if _is_constant(bound) and self.sets is None:
            return
        if not bound.columns():
            raise binder.refuse("GROUP_BY_CONSTANT", item, expression=binder.shown(item))
        if not is_hashable(bound.type):
            raise binder.refuse("GROUP_BY_NESTED", item, name=binder.shown(item), type=bound.type)
        text = identity_text(bound.tree)
        if text not in self._by_text:
            partly = None if self.sets is None else self.sets.partly(place, bound)
            is_column = isinstance(bound.tree, exp.Column) and partly is None
            name = bound.tree.name if is_column else f"group${len(self.group) + 1}"
            self._by_text[text] = Named(name, partly or bound)
            self._kinds.add(type(bound.tree))
            self._nulled |= set() if partly is None else {name}
            self.group.append(self._by_text[text])

    def _find_window(self) -> None:
        """Find the window of the groups: that of the only source, or one whose bounds a step below passes on."""
        own = self.source.window
        grouped = {named.name for named in self.group}
        if own is not None:
            bounds = {"window_start": own.start, "window_end": own.end}
            missing = [shown for shown, name in bounds.items() if name not in grouped]
            if missing:
                raise error("WINDOW_NOT_GROUPED", span=self.span, missing=missing)
        if own is not None and sum(not source.is_part_of_row for source in self.scope.sources) == 1:
            check_over("a windowed aggregate", self.below, self.span)
            self.window = own
            return
        if self.below.untimed:
            return
        window = next((b for b in self.below.windows if grouped.issuperset(b)), None)
        if window is not None:
            self.window = self.below = Windowed(self.below, *window)

    def over(self, bound: BoundExpression, span: Span) -> BoundExpression:
        """The expression over the aggregate's output: groups and aggregates become their fields.

        Raises:
            UserError: COLUMN_NOT_GROUPED.
        """
        top = bound.tree.copy()
        passed = self.beside | {call.name for call in self.aggregates.calls.values()}
        kinds = self._kinds
        nullable = bound.nullable
        pending = [top]
        while pending:
            node = pending.pop()
            if isinstance(node, exp.Identifier | exp.DataType | exp.Var) or (
                isinstance(node, exp.Column) and node.name in passed
            ):
                continue
            field = self._by_text.get(identity_text(node)) if type(node) in kinds else None
            if field is None and isinstance(node, exp.Column):
                place = self.scope.place(node) if node.this.meta else span
                raise error("COLUMN_NOT_GROUPED", span=place, name=column_of(node.name))
            nullable |= field is not None and field.name in self._nulled
            if field is None:
                pending += reversed(list(node.iter_expressions()))
            elif node is top:
                top = column(field.name)
            else:
                node.replace(column(field.name))
        return BoundExpression(top, bound.type, nullable)

    def node(self, *, updates: bool) -> Aggregate | DeltaAggregate:
        """The aggregate; called when all its calls are known. GROUP BY without aggregates counts rows, since the node
        needs a call."""
        if not self.aggregates.calls:
            self.aggregates.add("COUNT", None, None, BIGINT)
        calls = tuple(self.aggregates.calls.values())
        if self._is_native():
            return Aggregate(self.below, tuple(self.group), calls, self.window, updates, self._held)
        return DeltaAggregate(weighted(self.below), tuple(self.group), calls)

    def _is_native(self) -> bool:
        """Whether Spark's own aggregate can compute it: over a window, or over appended rows with at most one stateful
        step below and no step whose rows exist only because time has passed (``Node.settles``)."""
        if self.window is not None:
            return True
        few = sum(node.is_stateful for node in self.below.walk()) <= 1 and not has_weights(self.below)
        return self.below.changelog == "append" and few and not self.below.settles

    def check_values(self) -> None:
        """Refuse values that cannot be compared where they may be retracted. Called when all calls are known.

        Raises:
            NotYetError: FUNCTION_NOT_YET.
        """
        unequal = next((call for call in self.aggregates.calls.values() if not is_comparable(call.type)), None)
        if unequal is not None and not self._is_native():
            name = f"{unequal.function} of {unequal.type} over a changelog or another aggregate"
            instead = f"write {unequal.function}(JSON_STRING(value))"
            raise error("FUNCTION_NOT_YET", span=self.span, name=name, instead=instead)

    def check_updates(self, updates: bool) -> None:
        """Refuse a refined window over a step whose rows wait for time.

        Raises:
            NotYetError: STATEFUL_CHAIN.
        """
        if updates and self.window is not None:
            check_over("a windowed aggregate that is refined", self.below, self.span)

    def check_session(self, updates: bool) -> None:
        """Refuse a session whose bounds are read below the aggregate, which alone knows them. Called when all calls are
        known.

        Raises:
            UserError: SESSION_BOUNDS, SESSION_UPDATES.
        """
        window = self.window
        if not isinstance(window, Window) or window.function != "SESSION":
            return
        if updates:
            raise error("SESSION_UPDATES", span=self.span)
        bounds = {window.start, window.end}
        calls = self.aggregates.calls.values()
        inside = [part for call in calls for part in call.parts]
        uses = {
            "in WHERE": [node.condition for node in self.below.walk() if isinstance(node, Filter)],
            "in an aggregate": inside,
            "in an expression of GROUP BY": [g.expression for g in self.group if g.name not in bounds],
        }
        for where, expressions in uses.items():
            if any(bounds & expression.columns() for expression in expressions):
                raise error("SESSION_BOUNDS", span=self.span, where=where)


def window_of(node: Node) -> Window | None:
    """The first window of a plan, None without one."""
    return next((n for n in node.walk() if isinstance(n, Window)), None)


def key_names(node: Node, columns: Sequence[Named]) -> tuple[dict[str, str], list[str]]:
    """Key fields of a node → their names in a projection, and the key fields that the projection does not pass on."""
    passed: dict[str, str] = {}
    for named in columns:
        tree = named.expression.tree
        if isinstance(tree, exp.Column):
            passed.setdefault(tree.name, named.name)
    names = {field: passed[field] for field in node.key if field in passed}
    return names, [field for field in node.key if field not in passed]


def _is_constant(expression: BoundExpression) -> bool:
    """Whether an expression is a literal that is not NULL, maybe with a sign, a cast or parentheses."""
    tree = expression.tree
    while isinstance(tree, exp.Paren | exp.Neg | exp.Cast):
        tree = tree.this
    return isinstance(tree, exp.Literal | exp.Boolean) and not expression.nullable
