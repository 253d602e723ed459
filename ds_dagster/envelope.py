"""How a failure crosses a process: its condition's name and parameters, as JSON after a mark.

Spark passes on the failures of operators, expressions and Python workers as text, with its own text around it. The
envelope (``[ds:NAME] {"parameter": …}``) is found anywhere in that text: JSON marks its own end, so parameters may hold
any characters. Java writes the same form (``dsdagster.OperatorFault``). Messages are made from templates where they are
shown, and never parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ds_dagster.conditions import CONDITIONS
from ds_dagster.errors import DsError, error

MARK = "[ds:"
_ENVELOPE = re.compile(re.escape(MARK) + r"([A-Z0-9_]+)\] (?=\{)")
_DETAIL = "detail"
_SCALARS = (str, int, float, bool, type(None))


def to_wire(failure: DsError) -> str:
    """The envelope of a failure, without its span, which only failures of the compiler have."""
    values = _values(failure) | ({_DETAIL: failure.detail} if failure.detail else {})
    return f"{MARK}{failure.condition}] {json.dumps(values)}"


def to_parameters(failure: DsError) -> str:
    """The parameters alone, as JSON."""
    return json.dumps(_values(failure))


def parameters_of(text: str) -> dict[str, object]:
    """The inverse of :func:`to_parameters`."""
    return dict(json.loads(text))


def from_wire(text: str) -> DsError | None:
    """The failure of the first whole envelope in a text, None without one."""
    return next(_envelopes(text), None)


def _envelopes(text: str) -> Iterator[DsError]:
    for match in _ENVELOPE.finditer(text):
        try:
            values = json.JSONDecoder().raw_decode(text, match.end())[0]
        except json.JSONDecodeError:
            continue  # a plan that quotes the text of an expression
        if match[1] in CONDITIONS:
            yield error(match[1], **{"detail": "", **values})


def _values(failure: DsError) -> dict[str, object]:
    return {name: _plain(value) for name, value in failure.params.items()}


def _plain(value: object) -> object:
    """The value as JSON holds it; values of other types become text, as in a message."""
    if isinstance(value, list | tuple | set | frozenset):
        return [item if isinstance(item, _SCALARS) else str(item) for item in value]
    return value if isinstance(value, _SCALARS) else str(value)
