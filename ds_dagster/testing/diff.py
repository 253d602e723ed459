"""Differences between expected and actual rows: missing rows, unexpected rows, and by key the values that differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ds_dagster.datatypes import DataType
from ds_dagster.testing.case import Expectation, Row
from ds_dagster.testing.values import compared_row

_MOST = 20
"""Lines of one kind that are shown."""


def compare(
    expectation: Expectation,
    expected: Sequence[Row],
    rows: Sequence[Row],
    key: Sequence[str],
    types: Mapping[str, DataType] = MappingProxyType({}),
) -> str:
    """The differences as text of several lines; empty if there are none.

    Args:
        expectation: how to compare.
        expected: rows of the case or its golden file.
        rows: rows of the relation, in order.
        key: columns that pair rows for the diff; may be empty.
        types: of the columns, as far as known: DECIMAL is compared to the last digit, times by value.
    """
    wanted = [compared_row(row, types) for row in expected]
    actual = [compared_row(row, types) for row in rows]
    if expectation.columns == "subset" and wanted:
        names = list(dict.fromkeys(name for row in wanted for name in row))
        actual = [{name: row[name] for name in names if name in row} for row in actual]
    if expectation.ordered:
        return _in_order(wanted, actual)
    missing, extra = _difference(wanted, actual)
    return _by_key(missing, extra, key) if missing or extra else ""


def _row_json(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, ensure_ascii=False)


def _difference(wanted: Sequence[Row], actual: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows that only ``wanted`` has, and rows that only ``actual`` has; duplicates count."""
    left, right = Counter(map(_row_json, wanted)), Counter(map(_row_json, actual))
    return _kept(wanted, left - right), _kept(actual, right - left)


def _kept(rows: Sequence[Row], counts: Counter[str]) -> list[Row]:
    result = []
    for row in rows:
        text = _row_json(row)
        if counts[text] > 0:
            counts[text] -= 1
            result.append(row)
    return result


def _in_order(wanted: Sequence[Row], actual: Sequence[Row]) -> str:
    same = next(
        (n for n, (a, b) in enumerate(zip(wanted, actual, strict=False)) if _row_json(a) != _row_json(b)),
        min(len(wanted), len(actual)),
    )
    if same == len(wanted) == len(actual):
        return ""
    lines = [f"  the first {same} of {len(wanted)} expected rows are as expected; then"]
    lines += [f"  - {_shown(row)}" for row in wanted[same : same + _MOST]]
    lines += [f"  + {_shown(row)}" for row in actual[same : same + _MOST]]
    return "\n".join(lines)


def _by_key(missing: list[Row], extra: list[Row], key: Sequence[str]) -> str:
    lines: list[str] = []
    paired = list(key) or _shared_name(missing, extra)
    for row in list(missing):
        partner = next((other for other in extra if paired and _same_key(row, other, paired)), None)
        if partner is not None:
            missing.remove(row)
            extra.remove(partner)
            lines.append(f"  ~ {_key_text(row, paired)}: {_changes(row, partner)}")
    lines += [f"  - {_shown(row)}" for row in missing]
    lines += [f"  + {_shown(row)}" for row in extra]
    cut = [f"  … {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return "\n".join([*lines[:_MOST], *cut])


def _shared_name(missing: Sequence[Row], extra: Sequence[Row]) -> list[str]:
    """Without a key: the first column pairs rows if its values are unique on both sides."""
    if not missing or not extra:
        return []
    name = next(iter(missing[0]), None)
    for rows in (missing, extra):
        values = [json.dumps(row.get(name)) for row in rows] if name else []
        if len(set(values)) < len(rows):
            return []
    return [str(name)]


def _same_key(left: Row, right: Row, key: Sequence[str]) -> bool:
    return all(name in left and name in right and _value(left, name) == _value(right, name) for name in key)


def _key_text(row: Row, key: Sequence[str]) -> str:
    return ", ".join(f"{name} {json.dumps(row[name], ensure_ascii=False)}" for name in key)


def _changes(wanted: Row, actual: Row) -> str:
    names = dict.fromkeys([*wanted, *actual])
    texts = [
        f"{name} is {_value(actual, name)}, expected {_value(wanted, name)}"
        for name in names
        if _value(wanted, name) != _value(actual, name)
    ]
    return "; ".join(texts)


def _value(row: Row, name: str) -> str:
    return json.dumps(row[name], sort_keys=True, ensure_ascii=False) if name in row else "not there"


def _shown(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)
