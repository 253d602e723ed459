"""Lines and columns: of statements, names, properties, columns and the nodes of a SELECT."""

from __future__ import annotations

from sqlglot import exp

from ds_dagster.diagnostics import Span
from ds_dagster.sql import parse_file, span_of
from ds_dagster.sql.statements import CreateAsSelect, CreateRelation, CreateStore

TEXT = '''-- ä comment; with a semicolon and 'a quote
CREATE STORE s WITH (
  'type' = KAFKA,
\t'Uris' = 'a
b',
  'c' = -1
);
CREATE STREAM "Größe" (
  a INT,
  "b ""x""" VARCHAR
) WITH ('value.format' = 'json');  CREATE STREAM j AS
  SELECT a, count(*)
    AS n, contactinfo->zip FROM t x JOIN
    b WITHIN 5 MINUTES ON x.a =
 b."A"
'''


def at(span: Span) -> tuple[int, int]:
    return span.line, span.column


def written(span: Span) -> str:
    """The text a span covers."""
    lines = TEXT.split("\n")
    assert span.end_line is not None and span.end_column is not None
    if span.line == span.end_line:
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]
    inner = [lines[span.line - 1][span.column - 1 :], *lines[span.line : span.end_line - 1]]
    return "\n".join([*inner, lines[span.end_line - 1][: span.end_column - 1]])


def test_statements_names_and_properties() -> None:
    store, stream, query = parse_file("x.sql", TEXT).statements
    assert isinstance(store, CreateStore) and isinstance(stream, CreateRelation) and isinstance(query, CreateAsSelect)
    assert [at(one.origin.span) for one in (store, stream, query)] == [(2, 1), (8, 1), (11, 36)]
    for one in (store, stream, query):
        assert written(one.origin.span) == one.origin.text
    assert [written(item.span) for item in store.properties] == ["'type'", "'Uris'", "'c'"]
    assert [written(item.value_span) for item in store.properties] == ["KAFKA", "'a\nb'", "-1"]
    assert store.properties[1].name == "uris"
    assert written(stream.name.span) == '"Größe"'
    assert [written(column.span) for column in stream.columns] == ["a", '"b ""x"""']
    assert stream.columns[1].name == 'b "x"'
    assert written(query.body.span).startswith("SELECT a") and written(query.body.span).endswith('b."A"')


def test_nodes_of_a_select() -> None:
    query = parse_file("x.sql", TEXT).statements[2]
    assert isinstance(query, CreateAsSelect)
    tree = query.body.tree
    places = {
        str(node.this): at(span_of(node, query.body.span))
        for node in tree.find_all(exp.Identifier)
        if node.this in ("n", "contactinfo", "zip", "A")
    }
    assert places == {"n": (13, 8), "contactinfo": (13, 11), "zip": (13, 24), "A": (15, 4)}
    count, join = tree.find(exp.Count), tree.find(exp.Join)
    assert count and join
    assert at(span_of(count, query.body.span)) == (12, 13)
    assert at(span_of(join.args["on"], query.body.span)) == (14, 27)
    assert span_of(exp.Null(), query.body.span) == query.body.span


def test_windows_line_ends_and_a_byte_order_mark() -> None:
    parsed = parse_file("x.sql", "\ufeffCREATE DATABASE a;\r\nCREATE STREM b;\r\n")
    assert [(found.span.line, found.span.column) for found in parsed.diagnostics if found.span] == [(2, 8)]
    assert parsed.diagnostics[0].fragment == "CREATE STREM b;"
    assert len(parsed.statements) == 1


def test_the_fragment_is_the_line_and_the_caret_points() -> None:
    text = parse_file("x.sql", "CREATE DATABASE a;\n  CREATE STREM b;").diagnostics[0].text().split("\n")
    assert text[1] == "      CREATE STREM b;"
    assert text[2].index("^") == text[1].index("STREM")
