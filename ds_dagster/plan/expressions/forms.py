"""Forms of SQL that become calls; messages name and show them as they were written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.functions.function import Signature
from ds_dagster.sql.expressions import WRITTEN


@dataclass(frozen=True, slots=True)
class CallForm:
    """The written form of a call that has words between its arguments.

    Attributes:
        name: of the form, for messages.
        text: the form: ``{0}`` is the first argument of the call, ``{unit}`` its unit of time.
        shown: numbers, from 0, of the arguments that are written, in their order in the text.
    """

    name: str
    text: str
    shown: tuple[int, ...]


FORMS: Mapping[str, CallForm] = MappingProxyType(
    {
        "IS JSON": CallForm("IS JSON", "{0} IS JSON", (0,)),
        "SIMILAR TO": CallForm("SIMILAR TO", "{0} SIMILAR TO '…'", (0,)),
        "AT TIME ZONE": CallForm("AT TIME ZONE", "{0} AT TIME ZONE {1}", (0, 1)),
        "FLOOR TO": CallForm("FLOOR", "FLOOR({1} TO {unit})", (1,)),
        "CEIL TO": CallForm("CEIL", "CEIL({1} TO {unit})", (1,)),
        "CEILING TO": CallForm("CEILING", "CEILING({1} TO {unit})", (1,)),
        "DATE_TRUNC": CallForm("DATE_TRUNC", "DATE_TRUNC('{unit}', {1})", (1,)),
        "EXTRACT": CallForm("EXTRACT", "EXTRACT({unit} FROM {1})", (1,)),
        "TIMESTAMPDIFF": CallForm("TIMESTAMPDIFF", "TIMESTAMPDIFF({unit}, {1}, {2})", (1, 2)),
        "TIMESTAMPADD": CallForm("TIMESTAMPADD", "TIMESTAMPADD({unit}, {1}, {2})", (1, 2)),
        "TRIM": CallForm("TRIM", "TRIM([LEADING | TRAILING | BOTH] {1} FROM {0})", (1, 0)),
        "JSON_VALUE DEFAULT": CallForm("JSON_VALUE", "JSON_VALUE({0}, path …)", (0,)),
        "JSON_VALUE …": CallForm("JSON_VALUE", "JSON_VALUE(…)", ()),
    }
)
"""Written word of a node (:data:`~ds_dagster.sql.expressions.WRITTEN`) → its form."""
_WRITTEN: Mapping[type[exp.Expression], str] = MappingProxyType({exp.Trim: "TRIM", exp.Extract: "EXTRACT"})


def form_of(node: exp.Expression) -> CallForm | None:
    """The form that a call was written in, None if it was written as a call."""
    return FORMS.get(_written(node))


def written_name(node: exp.Expression, otherwise: str) -> str:
    """Name of the called function as it was written; ``otherwise`` for a node that was not written."""
    form = form_of(node)
    return form.name if form else _written(node) or otherwise


def form_text(node: exp.Expression, texts: Callable[[Sequence[exp.Expression]], Sequence[str]]) -> str | None:
    """Text of a call in the form it was written in, None if it has none. ``texts``: turns arguments into texts."""
    form = form_of(node) if WRITTEN in node.meta else None
    if form is None:
        return None
    return form.text.format(*texts(node.expressions), unit=node.expressions[0].name if node.expressions else "")


def expected_form(form: CallForm, signatures: Sequence[Signature]) -> str:
    """The form with the words of the last signature's arguments."""
    words = [signatures[-1].word(position) for position in range(len(signatures[-1].words))]
    return form.text.format(*words, unit="unit")


def _written(node: exp.Expression) -> str:
    call = node.this if isinstance(node, exp.Filter) else node
    spelled = call.meta.get(WRITTEN) or _WRITTEN.get(type(call), "")
    return str(spelled or (call.this if isinstance(call, exp.Anonymous) else "")).upper()
