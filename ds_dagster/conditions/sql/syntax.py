"""Conditions of the topic: the syntax of SQL (grammar, names, comments)."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition
from ds_dagster.conditions.sql.constraints import WRITTEN

_REFERENCE = "the grammar is on the page Dialect of the documentation"

GRAMMAR: tuple[Condition, ...] = (
    Condition("SYNTAX_EXPECTED", "user", "expected {expected}, found {found}", "{fix}", "42601"),
    Condition("SYNTAX_OF_OTHER_DIALECT", "user", "{shown} is a form of another dialect", "{fix}", "42601"),
    Condition(
        "SYNTAX_UNEXPECTED",
        "user",
        "unexpected {found}",
        "{fix}",
        "42601",
    ),
    Condition("SYNTAX_UNTERMINATED", "user", "{what} is never closed", "close it with {closing}", "42601"),
    Condition(
        "SYNTAX_BAD_CHARACTER",
        "user",
        "character {character} has no meaning here",
        'remove it, or quote the name: "…"',
        "42601",
    ),
    Condition(
        "SYNTAX_TOO_DEEP",
        "user",
        "expression is nested more than {limit} levels deep",
        "split the query into two relations",
        "42601",
    ),
    Condition(
        "SYNTAX_RESERVED_WORD", "user", "{word} is a reserved word and cannot be {role}", 'quote it: "{word}"', "42601"
    ),
    Condition("TYPOGRAPHIC_QUOTE", "user", "typographic quote {character} is read as {plain}", "write {plain}"),
    Condition("STATEMENT_UNKNOWN", "user", "no statement begins with {word}", "did you mean {nearest}?", "42601"),
    Condition("CREATE_UNKNOWN", "user", "no statement CREATE {word}", "did you mean CREATE {nearest}?", "42601"),
    Condition("COMMENT_TAG_UNKNOWN", "user", "unknown tag @{tag} in a comment", "did you mean @{nearest}?"),
    Condition(
        "NAME_TOO_MANY_PARTS",
        "user",
        "name {name} has {count} parts, at most {limit} are allowed here",
        "write {limit} parts at most",
        "42601",
    ),
)

PROPERTIES: tuple[Condition, ...] = (
    Condition("PROPERTY_NAME_NOT_QUOTED", "user", "property name {name} is not quoted", "write '{name}' = …", "42601"),
    Condition(
        "PROPERTY_VALUE_NOT_QUOTED", "user", "value of property {name} is not quoted", "write '{name}' = '…'", "42601"
    ),
    Condition(
        "PROPERTY_DUPLICATE", "user", "property {name} is given twice, also at {other}", "keep one of the two", "42601"
    ),
    Condition(
        "ENVIRONMENT_REFERENCE_IN_QUERY",
        "user",
        "environment reference {reference} inside a query",
        "references are allowed in WITH values only, since a query means the same everywhere; write the value itself",
    ),
)

RELATIONS: tuple[Condition, ...] = (
    Condition(
        "COLUMN_DEFINED_TWICE",
        "user",
        "column {name} is defined twice, also at {other}",
        "rename or remove one of the two",
        "42601",
    ),
    Condition(
        "COLUMN_LIST_EMPTY",
        "user",
        "column list of {name} is empty",
        "write at least one column, or leave the list out",
        "42601",
    ),
    Condition(
        "COLUMNS_AND_SELECT",
        "user",
        "{name} has a column list and AS SELECT",
        "remove the list: the columns come from the SELECT",
        "42601",
    ),
    Condition(
        "VIEW_WITHOUT_SELECT",
        "user",
        "materialized view {name} has no AS SELECT",
        "write CREATE MATERIALIZED VIEW {name} AS SELECT …",
        "42601",
    ),
    Condition(
        "PRIMARY_KEY_NOT_ALLOWED",
        "user",
        "{kind} {name} cannot have a primary key",
        "make it a CHANGELOG, or remove PRIMARY KEY",
        "42601",
    ),
    Condition(
        "PRIMARY_KEY_DUPLICATE",
        "user",
        "{name} has two primary keys, also at {other}",
        "write one PRIMARY KEY (column, …)",
        "42601",
    ),
    Condition(
        "PRIMARY_KEY_INLINE",
        "user",
        "PRIMARY KEY after column {column}",
        "write PRIMARY KEY ({column}) as the last item of the column list",
        "42601",
    ),
    Condition(
        "COLUMN_CONSTRAINT_UNSUPPORTED",
        "unsupported",
        "column constraint {constraint} is not supported",
        "NOT NULL and COMMENT 'text' may follow a column's type; a CONSTRAINT is an item of the list",
        "0A000",
    ),
    Condition("TYPE_UNKNOWN", "user", "unknown type {name}", "did you mean {nearest}?", "42601"),
    Condition("TYPE_PARAMETER_INVALID", "user", "{name} does not allow {value} here", "allowed: {allowed}", "42601"),
    Condition(
        "OR_REPLACE_UNSUPPORTED",
        "unsupported",
        "CREATE OR REPLACE is not supported",
        "write CREATE and change it in place: a changed definition is compared with what runs when it is applied",
        "0A000",
    ),
)

QUERIES: tuple[Condition, ...] = (
    Condition(
        "CLAUSE_UNSUPPORTED", "unsupported", "clause {clause} is not supported", "remove it; " + _REFERENCE, "0A000"
    ),
    Condition("FORM_INSTEAD", "unsupported", "{written} is not in the dialect", "write {instead}", "0A000"),
    Condition(
        "WINDOW_UNKNOWN",
        "user",
        "no window of this SELECT is called {name}",
        "did you mean {nearest}? otherwise add WINDOW {name} AS (PARTITION BY … ORDER BY …) after HAVING",
        "42P20",
    ),
    Condition("CLAUSE_TWICE", "user", "clause {clause} is written twice", "keep one of the two", "42601"),
    Condition(
        "HINT_UNSUPPORTED",
        "unsupported",
        "a hint /*+ … */ is not supported",
        "remove it; use the properties of a source: FROM r WITH ('name' = value)",
        "0A000",
    ),
    Condition(
        "EMIT_UNSUPPORTED",
        "unsupported",
        "clause EMIT is not supported",
        "leave it out: without a window every change is written; with one, write QUERY WITH ('emit.mode' = 'updates')",
        "0A000",
    ),
    Condition("FETCH_UNSUPPORTED", "unsupported", "clause FETCH is not supported", "write LIMIT", "0A000"),
    Condition(
        "ORDER_BY_IN_PERSISTENT_QUERY",
        "unsupported",
        "ORDER BY in a query that never ends is not supported",
        'remove it, and sort when reading: ds query "SELECT … ORDER BY …"; or add LIMIT n to keep the first rows',
        "0A000",
    ),
    Condition(
        "LIMIT_IN_PERSISTENT_QUERY",
        "unsupported",
        "{clause} in a query that never ends is not supported",
        'remove it, and limit when reading: ds query "SELECT … LIMIT …"; or add ORDER BY, so that LIMIT has a meaning',
        "0A000",
    ),
    Condition("CTE_TWICE", "user", "WITH names {name} twice", "give each query of WITH a name of its own", "42712"),
    Condition(
        "CTE_UNUSED",
        "user",
        "WITH names {name}, which nothing reads",
        "remove it, or read it in FROM: a query that nothing reads is not checked",
        "42601",
    ),
    Condition("BRACKET_OPEN", "user", "this bracket is never closed", "write ) {place}", "42601"),
    Condition(
        "CTE_TOO_LARGE",
        "user",
        "the names of WITH expand to more than {limit} sub-selects",
        "write the part that is read often as a relation of its own",
        "42601",
    ),
    Condition(
        "MATCH_SOURCE",
        "user",
        "MATCH_RECOGNIZE over something that is neither a relation nor a sub-select",
        "match the rows of a relation or of (SELECT …), each once; apply the window to a relation of the matches",
        "42601",
    ),
    Condition(
        "MATCH_WITHOUT_ORDER",
        "user",
        "MATCH_RECOGNIZE without ORDER BY",
        "write ORDER BY and the event-time column after PARTITION BY",
        "42601",
    ),
    Condition(
        "FROM_MISSING",
        "user",
        "SELECT without FROM",
        'name a relation: SELECT … FROM relation; constants are answered once: ds query "SELECT 1"',
        "42601",
    ),
    Condition(
        "VALUES_IN_PERSISTENT_QUERY",
        "unsupported",
        "VALUES in a query that never ends is not supported",
        "send the rows: ds sql -c \"INSERT INTO ENTITY entity VALUE('json')\", and select from a relation over that "
        'entity; or answer them once: ds query "VALUES (1, 2)"',
        "0A000",
    ),
    Condition(
        "VALUES_ROW_WIDTH",
        "user",
        "row {row} of VALUES has another number of values: {count}",
        "write {first}, as in the first row",
        "42601",
    ),
    Condition(
        "VALUES_COLUMNS",
        "user",
        "VALUES has a list of {count} column names",
        "name {expected} columns, one for each value of a row",
        "42601",
    ),
    Condition(
        "COMMA_JOIN_UNSUPPORTED",
        "unsupported",
        "a list of relations in FROM is not supported",
        "write JOIN … ON …; elements of an array: FROM relation, UNNEST(column) AS t(name)",
        "0A000",
    ),
    Condition(
        "CROSS_JOIN_UNSUPPORTED",
        "unsupported",
        "CROSS JOIN of relations is not supported",
        "write JOIN … ON left.column = right.column; elements of an array: CROSS JOIN UNNEST(column) AS t(name)",
        "0A000",
    ),
    Condition(
        "JOIN_UNSUPPORTED",
        "unsupported",
        "{join} JOIN is not supported",
        "INNER, LEFT and FULL exist, and RIGHT as the first join of a SELECT without *: b LEFT JOIN a means the same",
        "0A000",
    ),
    Condition("JOIN_WITHOUT_ON", "user", "JOIN {name} has no ON", "write ON left.column = right.column", "42601"),
    Condition(
        "JOIN_USING_UNSUPPORTED",
        "unsupported",
        "JOIN … USING is not supported",
        "write ON left.column = right.column",
        "0A000",
    ),
    Condition(
        "SOURCE_UNSUPPORTED",
        "unsupported",
        "{source} as a source is not supported",
        "a source is a relation, TUMBLE(…), HOP(…), CUMULATE(…), a sub-select, or in ds query (VALUES (…)) AS t(name)",
        "0A000",
    ),
    Condition("UNIT_UNKNOWN", "user", "unknown unit of time {name}", "did you mean {nearest}?", "42601"),
    Condition(
        "DURATION_INVALID",
        "user",
        "{value} is not a duration",
        "write a whole number above zero and one of {units}",
        "42601",
    ),
    Condition(
        "INSERT_VALUES_UNSUPPORTED",
        "unsupported",
        "INSERT INTO {name} VALUES is not supported",
        "send a record: ds sql -c \"INSERT INTO ENTITY entity VALUE('json')\"; queries are INSERT INTO {name} SELECT …",
        "0A000",
    ),
)

CONDITIONS: tuple[Condition, ...] = GRAMMAR + PROPERTIES + RELATIONS + WRITTEN + QUERIES
