"""Conditions of the topic: binding of queries (names, types, joins, windows, changelogs, keys, the graph)."""

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
    Condition("UNKNOWN_FUNCTION", "user", "no function is called {name}", "{fix}", "42883"),
    Condition("FUNCTION_NOT_YET", "not_yet", "function {name} is not built", "{instead}", _ZERO),
    Condition("FUNCTION_MISPLACED", "user", "function {name} cannot be called here", "{instead}", "42601"),
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
        "number {value} is out of range",
        "DECIMAL has 38 digits; with an exponent it is a DOUBLE, up to 1.8e308",
        "22003",
    ),
    Condition("LITERAL_INVALID", "user", "'{value}' is not a valid {type}", "write it as {example}", "22007"),
    Condition(
        "EXPRESSION_NOT_YET",
        "not_yet",
        "{what} inside an expression",
        "rewrite it with comparisons, CASE, CAST and the functions of the dialect (page Dialect of the documentation)",
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
        "remove WITHIN: each record is joined with the version that was valid at its time",
        "42601",
    ),
    Condition(
        "JOIN_FULL_NOT_YET",
        "not_yet",
        "FULL JOIN of stream {left} with changelog {right}",
        "write LEFT JOIN; a version without a matching record is a row of the changelog itself",
        _ZERO,
    ),
    Condition(
        "LOOKUP_JOIN",
        "user",
        "{what} of stream {left} with table {right}",
        "write JOIN or LEFT JOIN without WITHIN: each record is joined with the table's rows as they are when it is "
        "read",
        "42601",
    ),
    Condition(
        "LOOKUP_RESIDUAL",
        "not_yet",
        "ON of the LEFT JOIN with table {right} has conditions other than equalities",
        "declare a table over a view of the store that holds only the rows you need, or join and filter in WHERE",
        _ZERO,
    ),
    Condition(
        "LOOKUP_NOT_YET",
        "not_yet",
        "join of a stream with table {relation} in a store of type {type}",
        "load it into a POSTGRESQL store and join that table, or read its changes as a changelog",
        _ZERO,
    ),
    Condition(
        "LOOKUP_NESTED",
        "not_yet",
        "join of a stream with table {relation}, whose column {column} is of type {type}",
        "declare a table over a view of the store without the column",
        _ZERO,
    ),
    Condition(
        "LOOKUP_PROPERTY",
        "user",
        "'{name}' after table {relation}, which a join looks up instead of reading it as a stream",
        "only 'lookup.cache.millis' is allowed there",
    ),
    Condition(
        "LOOKUP_PROPERTY_OF_STREAM",
        "user",
        "'lookup.cache.millis' after {relation}, which is not a table",
        "remove it: a stream or changelog is read as it comes",
    ),
    Condition("JOIN_KINDS", "not_yet", "join of {left_kind} {left} with {right_kind} {right}", "{instead}", _ZERO),
    Condition(
        "JOIN_CONDITION",
        "user",
        "ON of the join with {right} has no equality between the two sides",
        "write ON {example}, and AND before the other conditions",
        "42601",
    ),
    Condition(
        "JOIN_KEY_TYPES",
        "user",
        "ON compares {left} of type {left_type} with {right} of type {right_type}",
        "join on columns of one type; convert the stream's column in a sub-select in FROM",
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
        "user",
        "ON of the join with changelog {right} does not use {missing} of its primary key",
        "add AND {example} = … to ON",
        "42601",
    ),
    Condition("JOIN_KEY_NESTED", "user", "ON compares {type} values", "join on a value inside it: map['key']", "42804"),
    Condition(
        "JOIN_RESIDUAL",
        "not_yet",
        "{kind} JOIN of {what} with a condition in ON that is not an equality between the sides",
        "put a condition on the right side alone into a sub-select; JOIN takes any condition",
        _ZERO,
    ),
    Condition("STATEFUL_CHAIN", "not_yet", "{upper} over {lower} in one query", "{instead}", _ZERO),
)

AGGREGATES: tuple[Condition, ...] = (
    Condition("AGGREGATE_MISPLACED", "user", "aggregate {function} in {clause}", "{fix}", "42803"),
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
        "GROUP BY {expression} reads no column",
        "leave it out: an aggregate without GROUP BY is over all rows; or group by a column",
        "42803",
    ),
    Condition(
        "GROUP_BY_NESTED",
        "user",
        "GROUP BY {name} of type {type}",
        "name a single value inside it: a field or an element",
        "42804",
    ),
    Condition(
        "GROUP_KEY_NOT_SELECTED",
        "user",
        "{name} is grouped by but not selected, so the result has no key",
        "add {name} to the SELECT list",
        "42803",
    ),
    Condition("HAVING_WITHOUT_GROUP", "user", "HAVING without GROUP BY", "write WHERE", "42803"),
    Condition(
        "UNBOUNDED_STATE",
        "user",
        "state grows with every record, without a limit: {states}",
        "QUERY WITH ('state.ttl.millis' = n) forgets a key that has no record for n ms; or read from a window such as "
        "TUMBLE(relation, SIZE n MINUTES) and group by window_start and window_end",
    ),
    Condition(
        "STATE_TTL_CONDITIONS",
        "unsupported",
        "'state.ttl.millis' with an outer join of changelogs whose ON has more than equalities",
        "filter the right side in a sub-select, so that ON holds equalities only, or leave the property out",
        _ZERO,
    ),
    Condition(
        "STATE_TTL_WITHOUT_STATE",
        "user",
        "'state.ttl.millis' bounds nothing here: no step keeps state by key without end",
        "leave it out; windows and joins over time end by event time, old versions of a temporal join by "
        "'temporal.join.retention.millis'",
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
        "'emit.mode' = 'updates' with a SESSION: the row of a longer session cannot replace the row of the shorter one",
        "leave out 'emit.mode'; a session gives its row once, when it has ended",
        "0A000",
    ),
    Condition(
        "WINDOW_OVER_CHANGELOG",
        "user",
        "a window over {relation}, whose rows replace one another",
        "re-declare its topic as a STREAM and window over that; write a sub-select as a CHANGELOG of its own first",
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
        "WINDOW_OF_WINDOW",
        "not_yet",
        "window over rows that are in windows already",
        "aggregate the inner one first, or write the part inside the outer one as a STREAM of its own",
        _ZERO,
    ),
    Condition(
        "WINDOW_IN_JOIN",
        "not_yet",
        "SESSION as a side of a join, whose bounds are known only when it has ended",
        "join with a sub-select that aggregates the session",
        _ZERO,
    ),
    Condition(
        "TEMPORAL_SETTING_UNUSED",
        "user",
        "'{name}' has no effect, there is no temporal join here",
        "leave it out; it belongs after the changelog that a stream is joined with, or in QUERY WITH of that query",
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
        "read the relation that fills it, join it to a stream (FROM stream JOIN {relation}), or query it once: "
        'ds query "SELECT … FROM {relation}"',
        _ZERO,
    ),
    Condition(
        "VIEW_COLUMN_NESTED", "not_yet", "view column {name} of type {type}", "select its parts: {example}", _ZERO
    ),
    Condition(
        "CHANGELOG_KEY_LOST",
        "user",
        "key column {name} of changelog {relation} is not selected unchanged, so updates cannot be matched to rows",
        "add {name} to the SELECT list",
        "42803",
    ),
    Condition(
        "VALUE_NOT_REPEATABLE",
        "unsupported",
        "{function} gives another value for a retraction than it gave for the row",
        "compute it in a CHANGELOG of its own, which reads the topic directly, and read that CHANGELOG",
        "0A000",
    ),
    Condition(
        "RESULT_WITHOUT_KEY",
        "user",
        "the result is a changelog without a key: a sub-select leaves out the columns that identify its rows",
        "select the key columns inside and outside (with UNNEST also the column of WITH ORDINALITY), or GROUP BY "
        "the selected columns",
        "42803",
    ),
    Condition(
        "INSERT_INTO_LOADED_TABLE",
        "unsupported",
        "INSERT INTO table {relation}, which CREATE TABLE … AS loads: a new load would delete the other rows",
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
        "STATEMENT_SKIPPED", "user", "{what} in a file is skipped", "run it on the command line: `ds query`, `ds print`"
    ),
)

RECORD_FIELDS: tuple[Condition, ...] = (
    Condition(
        "RECORD_FIELD_UNKNOWN",
        "user",
        "records of {relation} have no {function}()",
        "every record has rowtime(); Avro keys are columns, not text",
    ),
)
CONDITIONS: tuple[Condition, ...] = RECORD_FIELDS + NAMES + TYPES + JOINS + AGGREGATES + WINDOWS + SINKS + GRAPH
