"""What a refusal says to write instead is accepted: the text is taken out of the hint, its names are put in, and it is
compiled."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.plan.conftest import Compile


@dataclass(frozen=True, slots=True)
class Instead:
    """A refused statement, the text its hint shows, and a statement that holds this text.

    ``names``: word of the hint → what stands there in the statement.
    """

    refused: str
    text: str
    statement: str
    names: tuple[tuple[str, str], ...] = ()

    @property
    def written(self) -> str:
        """The statement with the hint's text in the place of ``{}``."""
        made = self.text
        for word, name in self.names:
            made = made.replace(word, name)
        return self.statement.replace("{}", made)


KEYED = (("o.k", "u.userid"), ("x.k", "x.userid"), ("o.v", "u.at"), ("(v)", "(at)"), (" k,", " userid,"),
         ("BY k", "BY userid"), ("FROM t ", "FROM views "))  # fmt: skip
OVER = "OVER (PARTITION BY userid ORDER BY rowtime())"
CASES = (
    Instead(
        f"CREATE STREAM s AS SELECT LEAD(url) {OVER} AS n FROM clicks",
        "SELECT LAG(x) OVER (PARTITION BY k ORDER BY rowtime()) AS x, x AS next_x",
        "CREATE STREAM s AS {} FROM clicks",
        (("(x)", "(url)"), (" x AS", " url AS"), ("BY k", "BY userid")),
    ),
    Instead(
        "CREATE CHANGELOG s AS SELECT userid FROM users u WHERE NOT EXISTS (SELECT at FROM views v WHERE v.at > u.at)",
        "LEFT JOIN (SELECT k, MAX(v) AS most FROM t GROUP BY k) x ON x.k = o.k WHERE x.most IS NULL OR x.most <= o.v",
        "CREATE CHANGELOG s AS SELECT u.userid FROM users u {}",
        KEYED,
    ),
    Instead(
        "CREATE CHANGELOG s AS SELECT name, (SELECT MAX(at) FROM views v WHERE v.userid = u.userid) AS n FROM users u",
        "LEFT JOIN (SELECT k, MAX(v) AS most FROM t GROUP BY k) x ON x.k = o.k",
        "CREATE CHANGELOG s AS SELECT u.userid, x.most FROM users u {}",
        KEYED,
    ),
    Instead(
        "CREATE STREAM s AS SELECT url FROM clicks WHERE url SIMILAR TO userid",
        "REGEXP(text, CONCAT('^(', pattern, ')$'))",
        "CREATE STREAM s AS SELECT url FROM clicks WHERE {}",
        (("text", "url"), ("pattern", "userid")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT JSON_VALUE(url, '$.x' ERROR ON EMPTY) AS n FROM clicks",
        "JSON_VALUE(text, path DEFAULT '?' ON ERROR)",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        (("text", "url"), ("path", "'$.x'")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT JSON_QUERY(url, '$.x' WITH CONDITIONAL ARRAY WRAPPER) AS n FROM clicks",
        "'[' || JSON_QUERY(text, path) || ']'",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        (("text", "url"), ("path", "'$.x'")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT JSON_QUERY(url, '$.x' EMPTY ARRAY ON EMPTY) AS n FROM clicks",
        "COALESCE(JSON_QUERY(text, path), '[]')",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        (("text", "url"), ("path", "'$.x'")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT x'48692E' AS n FROM clicks",
        "UNHEX('48692E')",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
    ),
    Instead(
        "CREATE STREAM s AS SELECT url IS JSON OBJECT AS n FROM clicks",
        "JSON_QUERY(text, '$') IS NOT NULL",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        (("text", "url"),),
    ),
    Instead(
        "CREATE STREAM s AS SELECT DATE_TRUNC('century', seen) AS n FROM clicks",
        "FLOOR(time TO unit)",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        (("time", "seen"), ("unit", "YEAR")),
    ),
    Instead(
        "CREATE CHANGELOG s AS SELECT userid, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY at DESC) AS n FROM clicks "
        "GROUP BY userid",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)",
        "CREATE CHANGELOG s AS SELECT userid, {} AS n FROM clicks GROUP BY userid",
        (("BY x", "BY at"),),
    ),
    Instead(
        "CREATE CHANGELOG s AS SELECT userid, APPROX_PERCENTILE(at, 0.9) AS n FROM clicks GROUP BY userid",
        "PERCENTILE(x, 0.9)",
        "CREATE CHANGELOG s AS SELECT userid, {} AS n FROM clicks GROUP BY userid",
        (("(x", "(at"),),
    ),
    Instead(
        "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY GROUPING SETS ((url), (url))",
        "GROUP BY GROUPING SETS ((a, b), (a), ())",
        "CREATE CHANGELOG s AS SELECT url, userid, GROUPING_ID(url, userid) AS g, COUNT(*) AS n FROM clicks {}",
        (("a, b", "url, userid"), ("(a)", "(url)")),
    ),
    Instead(
        "CREATE CHANGELOG s AS SELECT url, COUNT(*) AS n FROM clicks GROUP BY ROLLUP (url)",
        "GROUPING_ID(url) AS grouping_set",
        "CREATE CHANGELOG s AS SELECT url, {}, COUNT(*) AS n FROM clicks GROUP BY ROLLUP (url)",
    ),
    Instead(
        "CREATE STREAM s AS SELECT DATEDIFF(seen, seen) AS n FROM clicks",
        "TIMESTAMPDIFF(DAY, first, second)",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        (("first", "seen"), ("second", "seen")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT DATE_ADD(seen, 1) AS n FROM clicks",
        "TIMESTAMPADD(DAY, n, time)",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        ((" n,", " 2,"), ("time", "seen")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT EXPLODE(tags) AS n FROM people",
        "CROSS JOIN UNNEST(array) AS t(name)",
        "CREATE STREAM s AS SELECT name FROM people {}",
        (("array", "tags"),),
    ),
    Instead(
        "CREATE STREAM s AS SELECT url FROM clicks WHERE at > INT8 '850'",
        "CAST('850' AS BIGINT)",
        "CREATE STREAM s AS SELECT url FROM clicks WHERE at > {}",
    ),
    Instead(
        "CREATE STREAM s AS SELECT url FROM clicks WHERE seen > TIMESTAMP WITHOUT TIME ZONE '2024-01-01 00:00:00'",
        "CAST('2024-01-01 00:00:00' AS TIMESTAMP)",
        "CREATE STREAM s AS SELECT url FROM clicks WHERE seen > {}",
    ),
    Instead(
        "CREATE STREAM s AS SELECT seen - seen AS n FROM clicks",
        "TIMESTAMPDIFF(SECOND, seen, seen)",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
    ),
    Instead(
        "CREATE STREAM s AS SELECT GENERATE_SERIES(1, id) AS n FROM people",
        "SELECT i FROM relation CROSS JOIN UNNEST(SPLIT(REPEAT(',', n - 1), ',')) WITH ORDINALITY AS t(e, i)",
        "CREATE STREAM s AS {}",
        (("relation", "people"), ("n - 1", "id - 1")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT x.i FROM GENERATE_SERIES(1, 3) AS x",
        "FROM relation CROSS JOIN UNNEST(SPLIT(REPEAT(',', n - 1), ',')) WITH ORDINALITY AS t(e, i)",
        "CREATE STREAM s AS SELECT i {}",
        (("relation", "people"), ("n - 1", "id - 1")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT x FROM UNNEST(tags) AS x",
        "FROM relation CROSS JOIN UNNEST(array) AS t(name)",
        "CREATE STREAM s AS SELECT name {}",
        (("relation", "people"), ("array", "tags")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT FIELD(url, 'a', 'b') AS n FROM clicks",
        "CASE text WHEN first THEN 1 WHEN second THEN 2 ELSE 0 END",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        (("text", "url"), ("first", "'a'"), ("second", "'b'")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT SLICE(tags, 1, 2) AS n FROM people",
        "ARRAY_SLICE(array, first, last)",
        "CREATE STREAM s AS SELECT {} AS n FROM people",
        (("array", "tags"), ("first", "1"), ("last", "2")),
    ),
    Instead(
        "CREATE STREAM s AS SELECT CBRT(at) AS n FROM clicks",
        "SIGN(x) * POWER(ABS(x), 1e0 / 3)",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
        (("(x)", "(at)"),),
    ),
    Instead(
        "CREATE STREAM s AS SELECT URL_EXTRACT_PORT(url) AS n FROM clicks",
        "REGEXP_EXTRACT(url, '://[^/]*:([0-9]+)', 1)",
        "CREATE STREAM s AS SELECT {} AS n FROM clicks",
    ),
    Instead(
        "CREATE STREAM s AS SELECT TRANSFORM(tags) AS n FROM people",
        "SELECT f(e) AS x FROM relation CROSS JOIN UNNEST(array) AS t(e)",
        "CREATE STREAM s AS {}",
        (("f(e)", "UPPER(e)"), ("relation", "people"), ("array", "tags")),
    ),
    Instead(
        "CREATE CHANGELOG s AS SELECT userid, TUMBLE(seen) AS n FROM clicks GROUP BY userid",
        "FROM TUMBLE(relation, SIZE n unit) GROUP BY window_start, window_end",
        "CREATE CHANGELOG s AS SELECT window_start, window_end, COUNT(*) AS c {}",
        (("relation", "clicks"), ("n unit", "5 MINUTES")),
    ),
    Instead(
        "CREATE CHANGELOG s AS SELECT userid, JSON_OBJECTAGG(KEY url VALUE at) AS n FROM clicks GROUP BY userid",
        "JSON_ARRAYAGG(JSON_OBJECT('key' VALUE k, 'value' VALUE v))",
        "CREATE CHANGELOG s AS SELECT userid, {} AS n FROM clicks GROUP BY userid",
        (("VALUE k", "VALUE url"), ("VALUE v", "VALUE at")),
    ),
    Instead(
        "CREATE STREAM s AS WITH c AS changelog FROM users SELECT name FROM c",
        "CREATE STREAM c (columns) WITH ('topic' = 'topic of the changelog', 'value.format' = 'json')",
        "{}; CREATE STREAM s AS SELECT name FROM c",
        (("columns", "name VARCHAR"), ("topic of the changelog", "users")),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.text for case in CASES])
def test_the_text_of_the_hint_is_accepted(case: Instead, compile_sql: Compile) -> None:
    refused = compile_sql(case.refused + ";").errors
    assert any(case.text in found.hint for found in refused), [found.text() for found in refused]
    accepted = compile_sql(case.written + ";")
    assert not accepted.errors, [found.text() for found in accepted.errors]
    assert "s" in accepted.queries
