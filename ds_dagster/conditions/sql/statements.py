"""Conditions of the topic: statements that are refused by their first words."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "HOSTED_ROLES",
        "unsupported",
        "{statement} belongs to the hosted service",
        "remove it; access is managed in the stores and in Dagster; an owner is a comment: -- @owner team:name",
        "0A000",
    ),
    Condition(
        "HOSTED_USERS",
        "unsupported",
        "{statement} belongs to the hosted service",
        "remove it; users are managed where Dagster runs",
        "0A000",
    ),
    Condition(
        "HOSTED_ORGANIZATION",
        "unsupported",
        "{statement} belongs to the hosted service",
        "remove it; a project folder with its settings takes the place of an organization",
        "0A000",
    ),
    Condition(
        "HOSTED_TOKEN",
        "unsupported",
        "{statement} belongs to the hosted service",
        "remove it; commands need no token, secrets of stores are ${{NAME}} references",
        "0A000",
    ),
    Condition(
        "HOSTED_INTEGRATION",
        "unsupported",
        "{statement} belongs to the hosted service",
        "remove it; metrics are on the assets in Dagster and in ds ps --json",
        "0A000",
    ),
    Condition(
        "HOSTED_SANDBOX",
        "unsupported",
        "{statement} belongs to the hosted service",
        "run ds up for local servers",
        "0A000",
    ),
    Condition(
        "HOSTED_SETTING",
        "unsupported",
        "{statement} belongs to the hosted service",
        "write database, schema and store in the project's settings",
        "0A000",
    ),
    Condition(
        "COMPUTE_POOL_COMMAND",
        "unsupported",
        "{statement} is a command, not a statement",
        "run `ds engine start --pool NAME`, `ds engine stop --pool NAME` or `ds engine status`; "
        "LIST COMPUTE_POOLS in `ds sql` shows all pools",
        "0A000",
    ),
    Condition(
        "COMPUTE_POOL_USE",
        "unsupported",
        "{statement} is not supported: a query names its own compute pool",
        "write QUERY WITH ('compute_pool' = 'name') after the SELECT, or END APPLICATION WITH (…)",
        "0A000",
    ),
    Condition(
        "FUNCTION_WITH_STATE",
        "not_yet",
        "{statement} is not built: functions compute one value from one row",
        "collect the group with ARRAY_AGG(x) and pass JSON_STRING(ARRAY_AGG(x)) to a function",
        "0A000",
    ),
    Condition(
        "DESCRIPTOR_NOT_YET",
        "not_yet",
        "{statement} is not built",
        "write CREATE DESCRIPTOR_SOURCE",
        "0A000",
    ),
    Condition("INDEX_NOT_YET", "not_yet", "{statement} is not built yet", "views are indexed by their key", "0A000"),
    Condition(
        "UPDATE_DEFINITION",
        "unsupported",
        "{statement} is not supported",
        "change the CREATE statement in the file and apply it: ds apply",
        "0A000",
    ),
    Condition(
        "STATEMENT_OF_SHELL",
        "unsupported",
        "{statement} in a file is not supported",
        'run it once: ds sql -c "{statement} …"',
        "0A000",
    ),
    Condition(
        "GENERATE_NOT_YET",
        "not_yet",
        "{statement} is not built yet",
        "GENERATE COLUMNS ENTITY name in ds sql prints columns to paste",
        "0A000",
    ),
    Condition(
        "DROP_IN_FILE",
        "unsupported",
        "{statement} in a file is not supported",
        "remove the CREATE statement; `ds ps` lists jobs whose statement is gone, `ds stop NAME` ends them",
        "0A000",
    ),
    Condition(
        "TERMINATE_IN_FILE", "unsupported", "{statement} in a file is not supported", "run: ds stop NAME", "0A000"
    ),
    Condition(
        "RESTART_IN_FILE", "unsupported", "{statement} in a file is not supported", "run: ds restart NAME", "0A000"
    ),
    Condition(
        "ALTER_IN_FILE",
        "unsupported",
        "{statement} in a file is not supported",
        "change the CREATE statement, its comment (the description) or its -- @owner tag, then run: ds apply",
        "0A000",
    ),
    Condition(
        "EXPLAIN_IN_FILE", "unsupported", "{statement} in a file is not supported", "run: ds explain NAME", "0A000"
    ),
    Condition(
        "CREATE_VIEW_UNSUPPORTED",
        "unsupported",
        "CREATE VIEW is not supported",
        "write CREATE MATERIALIZED VIEW … AS SELECT, or a STREAM",
        "0A000",
    ),
    Condition(
        "CHANGE_DATA_UNSUPPORTED",
        "unsupported",
        "{statement} is not supported",
        "data is changed by queries only: INSERT INTO relation SELECT …",
        "0A000",
    ),
    Condition(
        "SESSION_STATEMENT_UNSUPPORTED",
        "unsupported",
        "{statement} is not supported",
        "remove it; properties are written in WITH and QUERY WITH",
        "0A000",
    ),
)
