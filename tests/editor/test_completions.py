"""What may be written at a place."""

from __future__ import annotations

import pytest

from ds_dagster.editor.completions import Candidate, candidates_at
from tests.editor.conftest import At

SELECT = "CREATE STREAM x AS SELECT "


def offered(at: At, marked: str, kind: str = "") -> set[str]:
    candidates: tuple[Candidate, ...] = candidates_at(*at(marked))
    return {candidate.text for candidate in candidates if not kind or candidate.kind == kind}


@pytest.mark.parametrize(
    ("marked", "kind", "expected"),
    [
        (f"{SELECT}url FROM |", "relation", {"clicks", "users", "home"}),
        (f"{SELECT}url FROM cl|", "relation", {"clicks", "users", "home"}),
        (f"{SELECT}url FROM TUMBLE(|", "relation", {"clicks", "users", "home"}),
        (f"{SELECT}| FROM clicks", "column", {"ts", "userid", "url"}),
        (f"{SELECT}c.| FROM clicks c JOIN users AS u ON c.userid = u.userid", "column", {"ts", "userid", "url"}),
        (f"{SELECT}u.re| FROM clicks c JOIN users AS u ON c.userid = u.userid", "column", {"userid", "region"}),
        (f"{SELECT}| FROM TUMBLE(users, SIZE 1 MINUTE)", "column", {"userid", "region"}),
        ("CREATE STREAM x WITH ('store' = '|", "store", {"k"}),
        ("SELECT url FROM public.|", "relation", {"clicks", "users", "home"}),
    ],
)
def test_names_of_the_project(at: At, marked: str, kind: str, expected: set[str]) -> None:
    assert offered(at, marked, kind) == expected


@pytest.mark.parametrize(
    ("marked", "among", "not_among"),
    [
        ("CREATE STORE s WITH ('|", {"uris", "type"}, {"topic", "state.ttl.millis"}),
        ("CREATE STORE s WITH ('type' = '|')", {"KAFKA", "POSTGRESQL"}, {"uris", "ORACLE"}),
        ("CREATE STREAM s (a INT) WITH ('|' = 1);", {"topic", "value.format"}, {"uris", "state.ttl.millis"}),
        (f"{SELECT}url FROM clicks WITH ('|", {"starting.position"}, {"topic.partitions", "uris"}),
        (f"{SELECT}url FROM clicks QUERY WITH ('|", {"state.ttl.millis", "query.name"}, {"topic", "uris"}),
        ("CREATE STREAM s WITH ('|') AS SELECT url FROM clicks;", {"topic.partitions"}, {"uris"}),
        ("CREATE STREAM s (a INT) WITH ('value.format' = '|", {"json", "avro"}, {"topic"}),
        (f"{SELECT}| FROM clicks", {"UPPER", "COUNT", "CASE"}, {"clicks"}),
        ("|", {"CREATE STREAM", "INSERT INTO"}, {"UPPER"}),
        ("CREATE STREAM a AS SELECT url FROM clicks; |", {"CREATE STREAM"}, {"url"}),
    ],
)
def test_properties_functions_and_keywords(at: At, marked: str, among: set[str], not_among: set[str]) -> None:
    candidates = offered(at, marked)
    assert among <= candidates
    assert candidates.isdisjoint(not_among)


def test_a_comment_offers_nothing(at: At) -> None:
    assert not offered(at, "-- FROM |")


def test_names_that_need_quotes_have_them(at: At) -> None:
    text = "CREATE STREAM \"Big\" (\"Name\" VARCHAR) WITH ('topic' = 'b', 'value.format' = 'json');"
    assert '"Big"' in offered(at, f"{text} {SELECT}a FROM |", "relation")
    assert '"Name"' in offered(at, f'{text} {SELECT}| FROM "Big"', "column")
