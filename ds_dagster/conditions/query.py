"""Conditions of the topic: what queries mean (names, types, joins, windows, changelogs, keys, the graph)."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

_ZERO = "0A000"

NAMES: tuple[Condition, ...] = (
    Condition("UNKNOWN_COLUMN", "user", "no column is called {name} in {where}", "did you mean {nearest}?", "42703"),
    Condition("UNKNOWN_ALIAS", "user", "no source is called {name} in this query", "sources are {known}{fix}", "42P01"),
    Condition("AMBIGUOUS_COLUMN", "user", "column {name} is in several sources: {sources}", "write {example}", "42702"),
    Condition(
        "DUPLICATE_ALIAS", "user", "two sources are called {name}", "give one of them another name with AS", "42712"
    ),
    Condition(
        "COLUMN_NEEDS_NAME",
        "user",
        "the column made by {expression} has no name",
        "write {expression} AS name",
        "42601",
    ),
    Condition("UNKNOWN_FUNCTION", "user", "no function is called {name}", "did you mean {nearest}?", "42883"),
    Condition("FUNCTION_NOT_YET", "not_yet", "function {name} is not built", "{instead}", _ZERO),
    Condition("UNKNOWN_FIELD", "user", "no field is called {name} in {type}", "did you mean {nearest}?", "42703"),
)

TYPES: tuple[Condition, ...] = (
    Condition(
        "FUNCTION_ARGUMENT_COUNT",
        "user",
        "{function} cannot take {count} arguments",
        "write {function}{expected}",
        "42883",
    ),
    Condition(
        "FUNCTION_ARGUMENT_TYPE",
        "user",
        "{function} cannot take {types}",
        "write {function}{expected}; CAST converts a value",
        "42883",
    ),
    Condition(
        "OPERATOR_TYPES",
        "user",
        "{operator} cannot take {left} and {right}",
        "convert one side: CAST(value AS TYPE)",
        "42883",
    ),
    Condition(
        "CONDITION_NOT_BOOLEAN", "user", "{clause} needs a condition, this is {type}", "compare it: value = …", "42804"
    ),
    Condition(
        "BRANCH_TYPES_DIFFER",
        "user",
        "{what} have no common type: {types}",
        "convert them to one type with CAST",
        "42804",
    ),
    Condition("CAST_IMPOSSIBLE", "user", "{source} cannot be cast to {target}", "{fix}", "42846"),
    Condition("NULL_WITHOUT_TYPE", "user", "NULL has no type here", "write CAST(NULL AS TYPE)", "42804"),
    Condition(
        "NOT_A_STRUCT",
        "user",
        "{type} has no fields, {operation} is for STRUCT",
        "remove the access to {name}",
        "42809",
    ),
    Condition(
        "NOT_INDEXABLE",
        "user",
        "{type} has no elements",
        "[ ] is for ARRAY (from 1), MAP (by key) and STRUCT (by field name)",
        "42809",
    ),
    Condition(
        "INDEX_TYPE",
        "user",
        "{type} cannot be indexed by {index}",
        "ARRAY takes whole numbers from 1, MAP takes {expected}",
        "42809",
    ),
    Condition(
        "LITERAL_OUT_OF_RANGE",
        "user",
        "number {value} has more than 38 digits",
        "write it with an exponent for DOUBLE",
        "22003",
    ),
    Condition("LITERAL_INVALID", "user", "'{value}' is no {type}", "write it as {example}", "22007"),
    Condition(
        "EXPRESSION_NOT_YET",
        "not_yet",
        "{what} inside an expression",
        "rewrite it with comparisons, CASE, CAST and the functions of docs/dialect.md",
        _ZERO,
    ),
)

JOINS: tuple[Condition, ...] = (
    Condition(
        "INTERVAL_JOIN_WITHOUT_WITHIN",
        "user",
        "the join of stream {left} with stream {right} has no WITHIN",
        "write how far apart their records may be: JOIN {right} WITHIN 5 MINUTES ON …",
        "42601",
    ),
    Condition(
        "WITHIN_ON_TEMPORAL_JOIN",
        "user",
        "WITHIN on the join of stream {left} with changelog {right}",
        "remove WITHIN: each record meets the version that was valid at its time",
        "42601",
    ),
    Condition(
        "JOIN_FULL_NOT_YET",
        "not_yet",
        "FULL JOIN of {left} with {right}",
        "write LEFT JOIN in both directions, as two queries",
        _ZERO,
    ),
    Condition("JOIN_KINDS", "not_yet", "join of {left_kind} {left} with {right_kind} {right}", "{instead}", _ZERO),
    Condition(
        "JOIN_CONDITION",
        "user",
        "ON of the join with {right} is not one equality of a column on each side",
        "write ON {example}; other conditions go into WHERE",
        "42601",
    ),
    Condition(
        "JOIN_KEY_TYPES",
        "user",
        "ON compares {left} of type {left_type} with {right} of type {right_type}",
        "join on columns of one type; convert the one of the stream in a sub-select before",
        "42804",
    ),
    Condition(
        "JOIN_KEY_NOT_PRIMARY",
        "user",
        "ON uses {column} of changelog {right}, whose primary key is {key}",
        "join on {right}.{key}, or declare the topic as a changelog with PRIMARY KEY ({column})",
        "42601",
    ),
    Condition(
        "JOIN_KEY_COMPOSITE",
        "not_yet",
        "join with changelog {right}, whose primary key has several columns: {key}",
        "build a changelog with one key column (CONCAT) and join on that",
        _ZERO,
    ),
    Condition("JOIN_KEY_NESTED", "user", "ON compares {type} values", "join on scalar columns", "42804"),
    Condition("STATEFUL_CHAIN", "not_yet", "{upper} over {lower} in one query", "{instead}", _ZERO),
)

AGGREGATES: tuple[Condition, ...] = (
    Condition("AGGREGATE_MISPLACED", "user", "aggregate {function} in {clause}", "{fix}", "42803"),
    Condition(
        "AGGREGATE_WITHOUT_GROUP",
        "not_yet",
        "an aggregate without GROUP BY has no key",
        "add GROUP BY over a column",
        _ZERO,
    ),
    Condition(
        "COLUMN_NOT_GROUPED",
        "user",
        "column {name} is neither grouped nor inside an aggregate",
        "add it to GROUP BY, or write MAX({name})",
        "42803",
    ),
    Condition(
        "STAR_WITH_GROUP", "user", "SELECT * with GROUP BY", "name the grouped columns and the aggregates", "42803"
    ),
    Condition(
        "GROUP_BY_CONSTANT",
        "user",
        "GROUP BY {expression} is a constant",
        "name a column or an expression over columns",
        "42803",
    ),
    Condition("GROUP_BY_NESTED", "user", "GROUP BY {name} of type {type}", "group by scalar values", "42804"),
    Condition(
        "GROUP_KEY_NOT_SELECTED",
        "user",
        "{name} is grouped by but not selected, so the result has no key",
        "add {name} to the SELECT list",
        "42803",
    ),
    Condition("HAVING_WITHOUT_GROUP", "user", "HAVING without GROUP BY", "write WHERE", "42803"),
    Condition(
        "DISTINCT_STATE",
        "user",
        "{function}(DISTINCT …) without a window keeps every value of every group for ever",
        "read from TUMBLE({relation}, SIZE n MINUTES) and group by window_start and window_end",
    ),
    Condition(
        "UNBOUNDED_STATE",
        "user",
        "state grows with every record: it is grouped by {name} of type {type} without a window",
        "read from TUMBLE({relation}, SIZE n MINUTES) and group by window_start and window_end",
    ),
)

WINDOWS: tuple[Condition, ...] = (
    Condition(
        "WINDOW_STEP",
        "user",
        "CUMULATE of {size} by steps of {step}",
        "choose a size that is a multiple of the step",
        "22023",
    ),
    Condition(
        "WINDOWS_TOO_MANY",
        "user",
        "a record would be in {windows} windows of {function}, more than {limit}",
        "choose a longer step or a shorter size",
        "54000",
    ),
    Condition(
        "SESSION_BOUNDS",
        "user",
        "the bounds of a session are used {where}, but they are known only when it has ended",
        "group by window_start and window_end as they are, and use them in HAVING or in the SELECT list",
        "42803",
    ),
    Condition(
        "SESSION_UPDATES",
        "user",
        "'emit.mode' = 'updates' with a SESSION: a session that grows would leave rows of its shorter self behind",
        "leave out 'emit.mode'; a session answers once, when it has ended",
        "0A000",
    ),
    Condition(
        "WINDOW_OVER_CHANGELOG",
        "user",
        "window over {kind} {relation}",
        "re-declare its topic as a STREAM and window over that",
        "42809",
    ),
    Condition(
        "WINDOW_NOT_GROUPED",
        "user",
        "a window needs both bounds in GROUP BY, {missing} is missing",
        "add {missing} to GROUP BY",
        "42803",
    ),
    Condition(
        "WINDOW_OF_JOIN",
        "not_yet",
        "window over {what}",
        "write the part inside the window as a STREAM of its own",
        _ZERO,
    ),
    Condition(
        "WINDOW_IN_JOIN", "not_yet", "window as a side of a join", "aggregate or window in a query of its own", _ZERO
    ),
    Condition(
        "EMIT_WITHOUT_WINDOW",
        "user",
        "'emit.mode' on a query without a window",
        "remove it: every change is emitted",
        "42601",
    ),
)

SINKS: tuple[Condition, ...] = (
    Condition(
        "SOURCE_IS_VIEW",
        "not_yet",
        "{kind} {relation} as a source of a query that never ends",
        'read the relation it is made of, or ask it once: ds query "SELECT … FROM {relation}"',
        _ZERO,
    ),
    Condition(
        "VIEW_COLUMN_NESTED", "not_yet", "view column {name} of type {type}", "select its parts: {example}", _ZERO
    ),
    Condition(
        "CHANGELOG_KEY_LOST",
        "user",
        "key column {name} of changelog {relation} is not selected unchanged, so updates cannot be told apart",
        "add {name} to the SELECT list",
        "42803",
    ),
    Condition(
        "RESULT_WITHOUT_KEY",
        "user",
        "the result is a changelog without a key: a sub-select leaves out what tells its rows apart",
        "select the key columns inside and outside, or GROUP BY what is selected",
        "42803",
    ),
    Condition(
        "INSERT_INTO_LOADED_TABLE",
        "unsupported",
        "INSERT INTO table {relation}, which CREATE TABLE … AS loads: a new load would take the other rows with it",
        "declare it with its columns, CREATE TABLE {relation} (…) WITH (…), and fill it by INSERT INTO alone",
        _ZERO,
    ),
    Condition(
        "INSERT_COLUMN_COUNT",
        "user",
        "INSERT INTO {relation} has {found} columns, the relation {expected}",
        "select exactly: {columns}",
        "42601",
    ),
    Condition(
        "INSERT_TYPE",
        "user",
        "column {position} ({name}) is {found}, {relation}.{target} is {expected}",
        "convert it: CAST({name} AS {expected})",
        "42804",
    ),
    Condition(
        "INSERT_KEY",
        "user",
        "INSERT INTO changelog {relation} keyed by ({key}) from a changelog keyed by ({found})",
        "put the key columns in the place of the primary key",
        "42809",
    ),
    Condition(
        "INSERT_PARTITION_BY",
        "user",
        "PARTITION BY in INSERT INTO {relation}",
        "declare the key on the relation: 'key.columns' = '…'",
        "42601",
    ),
    Condition(
        "QUERY_NAME_REQUIRED",
        "user",
        "{relation} is filled by several queries, this one has no name of its own",
        "add QUERY WITH ('query.name' = 'a_name')",
        "42601",
    ),
    Condition(
        "QUERY_NAME_TAKEN", "user", "two queries are called {name}", "give one of them another 'query.name'", "42710"
    ),
)

GRAPH: tuple[Condition, ...] = (
    Condition(
        "RELATION_CYCLE", "user", "{first} and {second} depend on one another", "break the circle: {path}", "42P19"
    ),
    Condition(
        "UPSTREAM_FAILED", "user", "{relation} reads {upstream}, which has a mistake", "correct {upstream} first"
    ),
    Condition(
        "SQL_FILE_UNREADABLE",
        "user",
        "{file} cannot be read: {reason}",
        "store it as UTF-8 text that this user may read",
    ),
    Condition(
        "STATEMENT_SKIPPED", "user", "{what} in a file is skipped", "ask on the command line: `ds query`, `ds print`"
    ),
)

RECORD_FIELDS: tuple[Condition, ...] = (
    Condition(
        "RECORD_FIELD_UNKNOWN",
        "user",
        "the records of {relation} have nothing for {function}()",
        "rowtime() every record has; keys in Avro are columns, not text",
    ),
)
CONDITIONS: tuple[Condition, ...] = RECORD_FIELDS + NAMES + TYPES + JOINS + AGGREGATES + WINDOWS + SINKS + GRAPH
