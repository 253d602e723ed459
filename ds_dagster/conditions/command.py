"""Conditions of the topic: what the command line answers (queries asked once, printed records, the demo)."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "QUESTION_WITHOUT_END",
        "user",
        "{what} over {kind} {relation}, which never ends",
        "let a view compute it: CREATE MATERIALIZED VIEW a_name AS {select}; then ask the view",
        "0A000",
    ),
    Condition(
        "QUESTION_TOO_LARGE",
        "user",
        "{relation} has {rows} rows that the question needs, {most} rows of its {columns} columns can be read at once",
        "compare a column with a constant in WHERE, select fewer columns, or let a view compute the answer",
        "54000",
    ),
    Condition(
        "QUESTION_SIDES",
        "user",
        "the first side has {left} columns, the second {right}",
        "select the same columns on both sides",
        "42601",
    ),
    Condition(
        "QUESTION_ONE_COLUMN",
        "user",
        "a sub-select used as a value has one column, this has {count}",
        "select one column in it",
        "42601",
    ),
    Condition(
        "QUESTION_AGGREGATE",
        "not_yet",
        "`ds query` does not support {name}",
        "aggregates that can: COUNT, SUM, AVG, MIN, MAX, VAR_…, STDDEV_…, ARRAY_AGG, LISTAGG; with OVER also ranks, "
        "LAG, LEAD, FIRST_VALUE, LAST_VALUE",
        "0A000",
    ),
    Condition(
        "QUESTION_CLAUSE",
        "user",
        "`ds query` does not support {clause}",
        "remove it; it belongs into CREATE … AS SELECT",
        "42601",
    ),
    Condition(
        "QUESTION_ORDER_POSITION",
        "user",
        "ORDER BY {position}: there are {count} columns",
        "write a number from 1 to {count}, or a column's name",
        "42P10",
    ),
    Condition(
        "QUESTION_FUNCTION_NOT_THERE",
        "not_yet",
        "{name} runs only in Spark, `ds query` does not support it",
        "compute it in the query that fills the relation, or write it as LANGUAGE PYTHON",
        "0A000",
    ),
    Condition(
        "QUESTION_STORE_UNREADABLE",
        "not_yet",
        "`ds query` cannot read {relation}, which is in a store of type {type}",
        "views, topics, Kinesis streams, and tables in Postgres, Snowflake, Databricks and Delta stores can",
        "0A000",
    ),
    Condition(
        "QUESTION_FAILED",
        "user",
        "the query cannot be answered: {reason}",
        "see which value does not fit; TRY_CAST gives NULL where CAST fails",
        "22000",
    ),
    Condition(
        "TABLE_NOT_LOADED",
        "user",
        "table {table} in store {store} does not exist yet",
        "materialize its asset: {relation}",
        "3E003",
    ),
    Condition(
        "ENTITY_AMBIGUOUS",
        "user",
        "entity {name} is in several stores: {stores}",
        "say which: --store NAME",
    ),
    Condition(
        "ENTITY_UNKNOWN",
        "user",
        "neither a relation nor an entity of a relation is called {name}",
        "did you mean {nearest}? for any other topic or stream add --store NAME",
    ),
    Condition(
        "DEFINITION_IN_SHELL",
        "unsupported",
        "{statement} changes the project's definition, which is in its SQL files",
        "{remedy} in a file of the project's sql folder, then run: ds apply",
        "0A000",
    ),
    Condition(
        "LIST_UNKNOWN",
        "user",
        "{word} cannot be listed",
        "did you mean {nearest}?",
        "42601",
    ),
    Condition(
        "OPTION_UNKNOWN",
        "user",
        "there is no option {name} here",
        "known ones: {known}",
        "42601",
    ),
    Condition(
        "STORE_NOT_CHOSEN",
        "user",
        "no store was named, and there is not exactly one: {stores}",
        "write IN STORE name, or USE STORE name first",
        "3D006",
    ),
    Condition(
        "ENTITY_IN_USE",
        "user",
        "entity {entity} is read or written by queries that are meant to run: {queries}",
        "TERMINATE QUERY first",
        "2BP01",
    ),
    Condition(
        "ENTITY_INSERT_FORMAT",
        "not_yet",
        "records of {entity} are {format}, as {relation} says: a statement can only insert JSON",
        "send it with a producer that knows the schema",
        "0A000",
    ),
    Condition(
        "NOTHING_TO_SAMPLE",
        "user",
        "none of {count} records of {entity} in store {store} is a JSON object",
        "put records in first, or write the columns by hand",
    ),
    Condition(
        "QUERY_NOT_SETTLED",
        "external",
        "query {name} is {state}: {reason}",
        "DESCRIBE QUERY {name} shows more, `ds logs {name}` its log",
    ),
    Condition(
        "CONDITION_UNKNOWN",
        "user",
        "no condition is called {name}",
        "did you mean {nearest}? `ds errors` lists all of them",
    ),
    Condition(
        "FOLDER_NOT_EMPTY",
        "user",
        "{file} is there already, nothing was written",
        "choose an empty folder, or remove the file",
    ),
    Condition("FOLDER_NOT_WRITABLE", "user", "{file} cannot be written: {reason}", "choose a folder of your own"),
    Condition(
        "DEMO_FAILED",
        "external",
        "the demo stopped at: {step}",
        "logs are in {logs}; `ds doctor` says what this machine lacks",
    ),
    Condition(
        "DEMO_PACKAGE_MISSING",
        "user",
        "the demo needs the Python package {package}",
        "`pip install 'ds-dagster[demo]'`",
    ),
    Condition(
        "DEMO_EXAMPLE_MISSING", "internal", "the example project is neither in the package nor in a checkout around it"
    ),
    Condition(
        "SIZE_LOAD_MISSING",
        "user",
        "the load of {count} relations or queries is not known",
        "add {options}; a number without a name holds for all others; --measured takes the figures of running jobs",
        "22023",
    ),
    Condition(
        "SIZE_LOAD_INVALID",
        "user",
        "{kind} of {name} is not a number of 0 or more: {value}",
        "write --{kind} NAME=NUMBER, or --{kind} NUMBER for all others",
        "22023",
    ),
    Condition(
        "SIZE_NAME_UNKNOWN",
        "user",
        "no {what} has the name {name}",
        "did you mean {nearest}?",
        "22023",
    ),
    Condition(
        "SIZE_FILE_INVALID",
        "user",
        "{file} is not usable: {reason}",
        "write TOML tables: [rows], [keys] and [bytes] with names and numbers for --load, [step.Aggregate] with value "
        "for --coefficients",
        "22023",
    ),
)
