"""EXPLAIN of what this layer knows: the statement, and the bound plan as text and as data.

::

    stream user_clicks → prod_kafka.user_clicks                     fingerprint v1:…
    └─ 1 Project → uid VARCHAR, click_url VARCHAR
       └─ 2 TemporalJoin inner on c.userid = u.userid · versions kept 1 h
          ├─ 3 Scan clicks AS c ← prod_kafka.clicks · append · time: record
          └─ 4 Scan users AS u ← prod_kinesis.users · upsert by userid · time: record
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import count

from ds_dagster.catalog.row_log import log_name
from ds_dagster.plan.expressions.field_names import shown
from ds_dagster.plan.expressions.printing import expression_text
from ds_dagster.plan.identity.fingerprint import shape_of
from ds_dagster.plan.nodes.aggregate import Aggregate, AggregateCall
from ds_dagster.plan.nodes.application import Virtual
from ds_dagster.plan.nodes.delta import DeltaAggregate, DeltaJoin, Distinct, Fold, Unweigh, Weigh, appends_only
from ds_dagster.plan.nodes.join import IntervalJoin, TemporalJoin
from ds_dagster.plan.nodes.match import Match, MatchValue
from ds_dagster.plan.nodes.node import BoundExpression, Field, Named, Node
from ds_dagster.plan.nodes.over import Over
from ds_dagster.plan.nodes.rank import TopN
from ds_dagster.plan.nodes.rows import Filter, Project
from ds_dagster.plan.nodes.scan import Scan, SourceTime
from ds_dagster.plan.nodes.sets import Union
from ds_dagster.plan.nodes.static import StaticJoin
from ds_dagster.plan.nodes.unnest import Unnest
from ds_dagster.plan.nodes.window import Window, Windowed
from ds_dagster.plan.nodes.window_join import WindowJoin
from ds_dagster.plan.patterns.pattern import pattern_text
from ds_dagster.plan.query import BoundQuery
from ds_dagster.sql.expressions import SKIPS
from ds_dagster.sql.generator import duration_text
from ds_dagster.sql.printing import print_statement

Described = Mapping[str, object]


def explain_statement(query: BoundQuery) -> str:
    """The statement as it was understood, in one canonical form."""
    return print_statement(query.statement)


def explain_plan(query: BoundQuery) -> str:
    """The bound plan as a tree, for people."""
    sink = query.sink
    head = f"{sink.kind.replace('_', ' ')} {sink.name.name} → {sink.store}.{sink.entity} · {_changelog(query.root)}"
    if query.is_finite:
        head += f" · {query.refresh}"
    lines = [head, *_tree(query.root.input, count(1), _again(query.root.input), "", last=True)]
    lines += ["columns", *(f"  {line}" for line in _columns(query))]
    lines += [f"fingerprint {query.fingerprint}", f"state {query.state_signature}"]
    return "\n".join(lines)


def plan_json(query: BoundQuery) -> Described:
    """The bound plan as data: nodes with ids in the order of :func:`explain_plan`, inputs by id."""
    sink = query.sink
    return {
        "query": query.name,
        "relation": str(sink.name),
        "kind": sink.kind,
        "store": sink.store,
        "entity": sink.entity,
        "changelog": query.root.changelog,
        "key": list(query.root.key),
        "refresh": query.refresh,
        "settings": dict(query.settings),
        "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in sink.columns],
        "nodes": _nodes(query.root.input),
        "lineage": {name: [[str(r), c] for r, c in sources] for name, sources in query.lineage.items()},
        "fingerprint": query.fingerprint,
        "state_signature": query.state_signature,
    }


def _nodes(top: Node) -> list[Described]:
    found: list[Described] = []
    numbers, again = count(1), _again(top)

    def visit(node: Node) -> int:
        number = next(numbers)
        place = len(found)
        found.append({})
        found[place] = {
            "id": number,
            "node": type(node).__name__,
            "about": DESCRIPTIONS[type(node)](node),
            "changelog": node.changelog,
            "key": [shown(name) for name in node.key],
            "stateful": node.is_stateful,
            "same_as": again.get(number),
            "inputs": [visit(child) for child in node.inputs],
            "output": [{"name": shown(f.name), "type": str(f.type), "nullable": f.nullable} for f in node.output],
        }
        return number

    visit(top)
    return found


def _again(top: Node) -> Mapping[int, int]:
    """Number of a stateful step → that of the first which computes the same from the same: Spark runs both."""
    first: dict[str, int] = {}
    found = {}
    for number, node in enumerate(top.walk(), start=1):
        if node.is_stateful and (same := first.setdefault(repr(shape_of(node)), number)) != number:
            found[number] = same
    return found


def _tree(node: Node, numbers: Iterator[int], again: Mapping[int, int], indent: str, *, last: bool) -> list[str]:
    branch, number = "└─ " if last else "├─ ", next(numbers)
    same = f" · same as {again[number]}, kept once more" if number in again else ""
    lines = [f"{indent}{branch}{number} {type(node).__name__} {DESCRIPTIONS[type(node)](node)}".rstrip() + same]
    below = indent + ("   " if last else "│  ")
    for position, child in enumerate(node.inputs, start=1):
        lines += _tree(child, numbers, again, below, last=position == len(node.inputs))
    return lines


def _columns(query: BoundQuery) -> Iterator[str]:
    """Each sink column with its type and what it is computed from."""
    for column in query.sink.columns:
        sources = ", ".join(f"{relation.name}.{name}" for relation, name in query.lineage.get(column.name, ()))
        null = "" if column.nullable else " NOT NULL"
        yield f"{column.name} {column.type}{null}" + (f" ← {sources}" if sources else "")


def _text(expression: BoundExpression) -> str:
    return expression_text(expression.tree, shown)


def _changelog(node: Node) -> str:
    if node.changelog == "append":
        return "append"
    return "upsert by " + (", ".join(shown(name) for name in node.key) or "(nothing)")


def _named(columns: Sequence[Named]) -> str:
    return ", ".join(_assigned(named.field, _text(named.expression)) for named in columns)


def _assigned(field: Field, text: str) -> str:
    name = shown(field.name)
    same = text == name or text.rpartition(".")[2] == name
    return f"{text} {field.type}" if same else f"{name} {field.type} = {text}"


def _scan(node: Node) -> str:
    assert isinstance(node, Scan)
    relation = node.relation
    alias = "" if node.alias == relation.name.name else f" AS {node.alias}"
    kept = [f"{c.name} {c.type}" for c in node.read_columns]
    shown_columns = "all columns" if node.columns is None else f"reads {', '.join(kept)}"
    facts = [f"{relation.name.name}{alias} ← {relation.store}.{relation.entity}", _changelog(node)]
    facts += [_time(node.time), f"from {start_text(node)}", shown_columns]
    if node.bad_records == "ignore":
        facts.append("bad records ignored" if node.log is None else f"bad records logged in {log_name(node.log)}")
    if node.data_loss == "skip":
        facts.append("lost records skipped")
    if node.max_records_per_batch is not None:
        facts.append(f"at most {node.max_records_per_batch} records per batch")
    return " · ".join(facts)


def start_text(scan: Scan) -> str:
    """Where a new query begins to read, for people: a word, or a moment in UTC."""
    if scan.starting_timestamp is None:
        return scan.starting_position
    return datetime.fromtimestamp(scan.starting_timestamp / 1000, tz=timezone.utc).isoformat(timespec="milliseconds")


def _time(time: SourceTime) -> str:
    what = "time: record" if time.column is None else f"time: {shown(time.column)}"
    return what if time.lateness_millis is None else f"{what} − {duration_text(time.lateness_millis)}"


def _filter(node: Node) -> str:
    assert isinstance(node, Filter)
    return _text(node.condition) + (" · rows that fail are deleted" if node.emits_deletes else "")


def _project(node: Node) -> str:
    assert isinstance(node, Project)
    return _named(node.columns)


def _window(node: Node) -> str:
    assert isinstance(node, Window)
    step = f" every {duration_text(node.step_millis)}" if node.step_millis else ""
    late = "" if node.late is None else f" · late rows kept in {node.late.relation.name.name}"
    return f"{node.function} {duration_text(node.size_millis)}{step}{late}"


def _aggregate(node: Node) -> str:
    assert isinstance(node, Aggregate)
    calls = ", ".join(_call(call) for call in node.calls)
    when = "every change"
    if node.window is not None:
        when = "every change" if node.updates else "once, when the window closes"
    return f"by {_named(node.group)} · {calls} · {when}"


def _call(call: AggregateCall) -> str:
    argument = "*" if call.argument is None else _text(call.argument)
    condition = "" if call.filter is None else f" FILTER (WHERE {_text(call.filter)})"
    distinct = "DISTINCT " if call.distinct else ""
    return f"{shown(call.name)} {call.type} = {call.function}({distinct}{argument}){condition}"


def _interval_join(node: Node) -> str:
    assert isinstance(node, IntervalJoin)
    return f"{node.kind} on {_on(node)} · within {duration_text(node.within_millis)}"


def _temporal_join(node: Node) -> str:
    assert isinstance(node, TemporalJoin)
    mode = "latest version at once" if node.immediate else "version valid at event time"
    kept = duration_text(node.retention_millis) if node.retention_millis else "0"
    return f"{node.kind} on {_on(node)} · {mode} · versions kept {kept}"


def _on(node: IntervalJoin | TemporalJoin | DeltaJoin | WindowJoin) -> str:
    keys = zip(node.left_keys, node.right_keys, strict=True)
    parts = [f"{_text(left)} = {_text(right)}" for left, right in keys]
    residual = None if isinstance(node, WindowJoin) else node.residual
    return " and ".join(parts if residual is None else [*parts, _text(residual)])


def _windowed(node: Node) -> str:
    assert isinstance(node, Windowed)
    return f"from {shown(node.start)} to {shown(node.end)}"


def _window_join(node: Node) -> str:
    assert isinstance(node, WindowJoin)
    ends = f"{shown(node.left_end)} = {shown(node.right_end)}"
    keys = f" and {_on(node)}" if node.left_keys else ""
    return f"{node.kind} on {ends}{keys} · once, when the window closes"


def _weigh(node: Node) -> str:
    assert isinstance(node, Weigh)
    return f"keeps the last row by {', '.join(map(shown, node.key))}{_ttl(node)}" if node.is_stateful else ""


def _ttl(node: Weigh | DeltaAggregate | DeltaJoin | Distinct | TopN) -> str:
    return f" · forgets after {duration_text(node.ttl_millis)} without a change" if node.ttl_millis else ""


def _rests(node: Over | Match) -> list[str]:
    """By event time, unlike others."""
    return [f"forgotten after {duration_text(node.ttl_millis)} without a row"] if node.ttl_millis else []


def _delta_aggregate(node: Node) -> str:
    assert isinstance(node, DeltaAggregate)
    return f"by {_named(node.group)} · {', '.join(_call(call) for call in node.calls)} · every change{_ttl(node)}"


def _delta_join(node: Node) -> str:
    assert isinstance(node, DeltaJoin)
    return f"{node.kind} on {_on(node)}{_ttl(node)}"


def _union(_node: Node) -> str:
    return "of all rows"


def _distinct(node: Node) -> str:
    assert isinstance(node, Distinct)
    return "keeps every value" + (" · the first row of each" if node.changelog == "append" else "") + _ttl(node)


def _top_n(node: Node) -> str:
    assert isinstance(node, TopN)
    order = ", ".join(f"{_text(t.expression)}{' DESC' * t.descending}" for t in node.order)
    by = f" by {', '.join(map(_text, node.partition))}" if node.partition else ""
    kept = "keeps nothing, a window is complete" if node.is_whole else f"keeps {_kept_rows(node)}{_ttl(node)}"
    return f"{node.function} ≤ {node.limit}{by} in order of {order} · {kept}"


def _virtual(node: Node) -> str:
    assert isinstance(node, Virtual)
    return node.name


def _over(node: Node) -> str:
    assert isinstance(node, Over)
    by = f" by {', '.join(map(_text, node.partition))}" if node.partition else ""
    reach = "all rows before" if node.before < 0 else f"{node.before} {'µs' if node.by_time else 'rows'} before"
    calls = ", ".join(f"{call.function}({_text(call.argument) if call.argument else '*'})" for call in node.calls)
    return " · ".join([f"{calls}{by} in event time", reach, "once time has passed a row", *_rests(node)])


def _unnest(node: Node) -> str:
    assert isinstance(node, Unnest)
    made = ", ".join(f"{shown(field.name)} {field.type}" for field in node.own)
    return f"{_text(node.value)} as {made}" + (" · rows without elements stay" if node.outer else "")


def _kept_rows(node: TopN) -> str:
    return "these rows" if appends_only(node.input) else "all rows"


def _static_join(node: Node) -> str:
    assert isinstance(node, StaticJoin)
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    scan = node.right
    age = f"at most {duration_text(scan.cache_millis)} old" if scan.cache_millis else "read again by every batch"
    table = f"table {scan.relation.name.name} ← {scan.relation.store}.{scan.relation.entity}, {age}"
    return f"{node.kind} on {' and '.join(f'{_text(left)} = {_text(right)}' for left, right in pairs)} · {table}"


def _fold(node: Node) -> str:
    assert isinstance(node, Fold)
    return f"to one change per {', '.join(map(shown, node.key))}"


def _match(node: Node) -> str:
    assert isinstance(node, Match)
    values = {value.name: _value(value) for value in node.values}
    facts = [f"by {_named(node.partition)}"] if node.partition else ["all rows in one partition"]
    if node.order:
        ordered = [_text(one.expression) + (" DESC" if one.descending else "") for one in node.order]
        facts.append(f"then in the order of {', '.join(ordered)}")
    facts.append(f"({pattern_text(node.pattern)})")
    if node.within_millis is not None:
        facts.append(f"within {duration_text(node.within_millis)}")
    facts += _rests(node)
    facts += [f"{one.variable}: {_with(one.condition, values)}" for one in node.definitions]
    facts.append(f"skip {' '.join(SKIPS[node.skip])} {node.skip_variable}".rstrip())
    made = [f"{shown(m.name)} {m.expression.type} = {_with(m.expression, values)}" for m in node.measures]
    facts.append(", ".join(made))
    return " · ".join(facts)


def _value(value: MatchValue) -> str:
    argument = "*" if value.argument is None else _text(value.argument)
    offset = f", {value.offset}" if value.offset else ""
    return f"{value.function}({argument}{offset} OF {value.variable or 'all'})"


def _with(expression: BoundExpression, values: Mapping[str, str]) -> str:
    return expression_text(expression.tree, lambda name: values.get(name) or shown(name))


DESCRIPTIONS: dict[type[Node], Callable[[Node], str]] = {
    Scan: _scan,
    Filter: _filter,
    Project: _project,
    Window: _window,
    Aggregate: _aggregate,
    IntervalJoin: _interval_join,
    TemporalJoin: _temporal_join,
    Weigh: _weigh,
    DeltaAggregate: _delta_aggregate,
    DeltaJoin: _delta_join,
    Fold: _fold,
    Union: _union,
    Distinct: _distinct,
    Match: _match,
    Windowed: _windowed,
    WindowJoin: _window_join,
    Virtual: _virtual,
    TopN: _top_n,
    Unweigh: lambda _node: "",
    Over: _over,
    Unnest: _unnest,
    StaticJoin: _static_join,
}
"""Node → what is to be said about it."""
