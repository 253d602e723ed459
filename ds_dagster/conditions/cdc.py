"""Conditions of the topic: changes of database tables (change data capture)."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "CDC_COLUMN_UNKNOWN",
        "user",
        "{relation} reads changes of tables, whose records have no column {name}",
        "declare columns among {known}, or declare a CHANGELOG with the table's own columns",
    ),
    Condition(
        "CDC_COLUMN_TYPE",
        "user",
        "column {name} of {relation} cannot be {type}",
        "declare it as {allowed}",
    ),
    Condition(
        "CDC_TABLES_UNCLEAR",
        "user",
        "{relation} does not say clearly which tables' changes it reads: {reason}",
        "{fix}",
    ),
    Condition(
        "CDC_SOURCE_ONLY",
        "user",
        "{name} has no meaning for {relation}, which is a {kind} in a store of type POSTGRESQL",
        "leave it out",
    ),
    Condition(
        "CDC_SLOT_NAME_INVALID",
        "user",
        "{name} cannot be the name of a replication slot",
        "use at most 63 lower-case letters, digits and underscores",
    ),
    Condition(
        "CDC_SERVER_TOO_OLD",
        "user",
        "the database {database} of store {store} is Postgres {version}; its changes cannot be read",
        "upgrade it to Postgres 13 or later",
    ),
    Condition(
        "CDC_WAL_LEVEL",
        "user",
        "the database {database} of store {store} does not log its changes for readers: wal_level is {level}",
        "set wal_level = logical and restart the server (RDS, Aurora: rds.logical_replication = 1)",
    ),
    Condition(
        "CDC_NOT_ALLOWED",
        "user",
        "the user {user} of store {store} may not read changes of {database}",
        "ALTER ROLE {user} REPLICATION (RDS, Aurora: GRANT rds_replication TO {user})",
    ),
    Condition("CDC_TABLE_MISSING", "user", "the table {table} does not exist", "create it, or correct its name"),
    Condition(
        "CDC_TABLE_UNREADABLE",
        "user",
        "changes of {table} cannot be read",
        "name an ordinary or partitioned table that is logged; views, temporary and UNLOGGED tables are not",
    ),
    Condition(
        "CDC_TABLE_WITHOUT_KEY",
        "user",
        "the table {table} has no key or replica identity, and would refuse updates once its changes are read",
        "add a primary key, or ALTER TABLE {table} REPLICA IDENTITY FULL",
    ),
    Condition(
        "CDC_KEY_DIFFERS",
        "user",
        "rows of the table {table} are identified by {found}, the relation declares {wanted}",
        "declare PRIMARY KEY({found}); a table without a key can be read as a STREAM",
    ),
    Condition(
        "SOURCE_TABLE_CHANGED",
        "user",
        "the table {table} of store {store} has other columns: {difference}; it affects {columns} of {relation}",
        "{fix}",
    ),
    Condition(
        "CDC_COLUMN_GONE",
        "user",
        "the table {table} has no column {column} (any more)",
        "correct the columns of the relation, then `ds restart` the query; it resumes where it stopped",
    ),
    Condition(
        "CDC_TRUNCATED",
        "user",
        "the table {table} was truncated, and the log does not list the deleted rows",
        "`ds reset` the query to start from the rows the table has now",
    ),
    Condition(
        "CDC_PUBLICATION_MISSING",
        "user",
        "the publication {slot} of store {store} was dropped, or does not hold all the tables any more",
        "`ds reset` the query: it creates the publication again and starts from the rows the tables have",
    ),
    Condition(
        "CDC_SLOT_MISSING",
        "user",
        "the replication slot {slot} of store {store} is gone, and with it changes that were not read",
        "`ds reset` the query: it creates a slot and starts from the rows the tables have",
    ),
    Condition(
        "CDC_SLOT_AHEAD",
        "user",
        "the replication slot {slot} of store {store} is at {at}, this query at {read}: another reader advanced it",
        "give each query a slot of its own, then `ds reset` the query",
    ),
    Condition(
        "CDC_SLOT_LOST",
        "user",
        "the replication slot {slot} of store {store} was invalidated: the server removed log that was not read",
        "drop the slot, raise max_slot_wal_keep_size, and `ds reset` the query",
    ),
    Condition(
        "CDC_SLOT_FOREIGN",
        "user",
        "the replication slot {slot} of store {store} belongs to {plugin} in the database {database}",
        "choose another 'postgresql.slot.name', or leave it out",
    ),
    Condition(
        "CDC_SLOT_ACTIVE",
        "external",
        "the replication slot {slot} of store {store} is in use by another session",
        "end the other reader, or give this query a slot of its own; it is retried",
    ),
    Condition(
        "CDC_NO_SLOT_FREE",
        "user",
        "the store {store} has no replication slot left",
        "drop unused slots (`ds gc` lists ours), or raise max_replication_slots",
    ),
    Condition(
        "CDC_SNAPSHOT_LOST",
        "user",
        "the copy of the tables was removed before it was read: {file}",
        "`ds reset` the query to take it again",
    ),
    Condition(
        "CDC_SNAPSHOT_FAILED",
        "external",
        "the rows of the tables cannot be copied to {folder}",
        "free disk space there; it is retried",
    ),
    Condition(
        "CDC_OPTION_INVALID",
        "internal",
        "option {name} of the source of changes is {value}, allowed is {allowed}",
    ),
    Condition("CDC_OFFSET_INVALID", "internal", "the checkpoint holds no position in changes: {offset}"),
    Condition(
        "CDC_MESSAGE_UNREADABLE", "internal", "the server sent a message that its protocol does not define: {reason}"
    ),
)
