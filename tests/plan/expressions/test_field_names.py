"""Internal names of fields cannot collide: proven over every short alias and column made of the signs that matter."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from ds_dagster.plan.expressions import field_names
from ds_dagster.plan.expressions.field_names import (
    alias_of,
    column_of,
    field_name,
    internal_alias,
    is_total_key,
    own_field,
    record_field,
    total_key,
)

SIGNS = ("a", "b", "$", "()", "_")
TEXTS = tuple("".join(parts) for length in (1, 2, 3) for parts in product(SIGNS, repeat=length))
ALIASES = tuple(dict.fromkeys(map(internal_alias, TEXTS)))
RECORD = ("a()", "b()", "rowtime()")
OWN = ("a", "b", "count1", "all")


def test_every_field_has_a_name_of_its_own() -> None:
    """Columns of users, what records have beside them and what steps make for themselves, under every alias."""
    taken: dict[str, tuple[str, str, str]] = {}
    for alias in ALIASES:
        fields = [(field_name(alias, column), ("column", alias, column)) for column in (*TEXTS, *RECORD, *OWN)]
        fields += [(record_field(alias, name), ("record", alias, name)) for name in RECORD]
        fields += [(own_field(alias, name), ("own", alias, name)) for name in OWN]
        for name, field in fields:
            assert taken.setdefault(name, field) == field, (name, field, taken[name])


def test_a_name_tells_its_alias_and_its_column() -> None:
    for alias, column in product(ALIASES[:50], TEXTS):
        name = field_name(alias, column)
        assert (alias_of(name), column_of(name)) == (alias, column)


def test_only_the_key_of_a_total_looks_like_one() -> None:
    for alias, column in product(ALIASES[:50], ("all", "$all", "$$all", *TEXTS)):
        assert is_total_key(total_key(alias))
        assert not is_total_key(field_name(alias, column))


def test_nothing_else_makes_or_reads_them() -> None:
    """The form is known to one module: elsewhere no text is put together with the mark, or cut at it."""
    whole = Path(field_names.__file__).parents[2]
    places = [folder for name in ("plan", "spark", "questions") for folder in sorted((whole / name).rglob("*.py"))]
    form = re.compile(
        r"\}\$\{[a-z_.]*(name|column|ROWTIME)|partition\(.\$.\)|split\(.\$.\)|field_names import.*\bMARK\b"
    )
    own = Path(field_names.__file__)
    assert not [str(p.relative_to(whole)) for p in places if p != own and form.search(p.read_text())]
