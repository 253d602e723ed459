"""Mutated projects: each compiles, or yields diagnostics with places; never a traceback, never a mistake of ours."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from ds_dagster.conditions import CONDITIONS
from ds_dagster.project.load import compile_texts, slice_of
from ds_dagster.settings import Settings
from tests.plan.conftest import PRELUDE

FOLDER = Path(__file__).parent.parent / "fixtures" / "plans"
QUERIES = [
    path.read_text(encoding="utf-8").partition("-- plan:")[0]
    for path in sorted(FOLDER.rglob("*.sql"), key=lambda path: path.stem)
]
TOKEN = re.compile(r"'[^']*'|\w+|->|\|\||<>|<=|>=|[^\w\s]")
VALUE = re.compile(r"'[^']*'|[a-z]\w*|\d+")
WORDS = (
    *(
        "url",
        "at",
        "userid",
        "seen",
        "amount",
        "ok",
        "contact",
        "tags",
        "counts",
        "c",
        "u",
        "clicks",
        "users",
        "prices",
        "people",
    ),
    *(
        "NULL",
        "1",
        "'a'",
        "2.5",
        "TRUE",
        "*",
        "COUNT(*)",
        "SUM(at)",
        "rowtime()",
        "CURRENT_TIMESTAMP",
        "INTERVAL '1' DAY",
        "s",
    ),
    *(
        "->city",
        "[1]",
        "+ 1",
        "= 1",
        "AND ok",
        "OR",
        "NOT",
        "IS NULL",
        "IN (1, 2)",
        "LIKE 'a'",
        "|| 'x'",
        "GROUP BY url",
        "LEFT",
    ),
    *(
        "WHERE",
        "CAST(at AS VARCHAR)",
        "CASE WHEN ok THEN 1 END",
        "TUMBLE(clicks, SIZE 1 MINUTE)",
        "window_start",
        "HAVING ok",
    ),
)


VALUES = (
    *(
        "url",
        "at",
        "userid",
        "seen",
        "amount",
        "ok",
        "contact",
        "tags",
        "counts",
        "price",
        "shop",
        "name",
        "c.url",
        "u.name",
        "v.at",
    ),
    *(
        "clicks",
        "users",
        "prices",
        "people",
        "views",
        "copies",
        "NULL",
        "1",
        "'a'",
        "2.5",
        "TRUE",
        "COUNT(*)",
        "SUM(at)",
        "MAX(at)",
    ),
    *(
        "rowtime()",
        "CURRENT_TIMESTAMP",
        "contact->city",
        "tags[1]",
        "counts['a']",
        "UPPER(url)",
        "at + 1",
        "ok AND TRUE",
        "x.u",
    ),
    *(
        "CASE WHEN ok THEN 1 END",
        "CAST(at AS VARCHAR)",
        "COALESCE(url, userid)",
        "amount / 3",
        "seen - INTERVAL '1' DAY",
        "(at)",
    ),
)


def mutated(seed: int) -> str:
    chance = random.Random(seed)
    tokens = TOKEN.findall(chance.choice(QUERIES))
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(tokens))
        action = chance.choice(
            ("value", "value", "value", "value", "drop", "double", "replace", "insert", "swap", "cross")
        )
        if action == "value":
            values = [position for position, token in enumerate(tokens) if VALUE.fullmatch(token)]
            tokens[chance.choice(values or [place])] = chance.choice(VALUES)
        elif action == "drop":
            del tokens[place]
        elif action == "double":
            tokens.insert(place, tokens[place])
        elif action == "replace":
            tokens[place] = chance.choice(WORDS)
        elif action == "insert":
            tokens.insert(place, chance.choice(WORDS))
        elif action == "swap":
            other = chance.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
        else:
            tokens[place] = chance.choice(TOKEN.findall(chance.choice(QUERIES)))
    return " ".join(tokens)


@pytest.mark.sweep
@pytest.mark.parametrize("block", range(10))
def test_mutations(block: int, settings: Settings) -> None:
    for seed in range(block * 40, block * 40 + 40):
        text = mutated(seed)
        project = compile_texts([("prelude.sql", PRELUDE), ("a.sql", text)], settings)
        for found in project.diagnostics:
            assert found.span is not None and found.span.line >= 1 and found.span.column >= 1, (seed, text, found)
            assert CONDITIONS[found.condition].kind != "internal", (seed, text, found)
        for query in project.queries.values():
            assert [f.type for f in query.root.output] == [c.type for c in query.sink.columns], (seed, text)
            assert slice_of(project, query), (seed, text)
        assert project.queries or project.diagnostics or not text.strip(" ;"), (seed, text)
