"""Conditions of the topic: declarations of stores, databases and relations, and their properties."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition("UNKNOWN_STORE", "user", "no store is called {name}", "did you mean {nearest}?", "3D006"),
    Condition("STORE_REFUSED", "user", "the store {name} was refused", "correct CREATE STORE {name} first"),
    Condition("UNKNOWN_RELATION", "user", "no relation is called {name}", "did you mean {nearest}?", "3D020"),
    Condition(
        "UNKNOWN_DATABASE",
        "user",
        "no database is called {name}",
        "did you mean {nearest}? otherwise write CREATE DATABASE {name}",
        "3D002",
    ),
    Condition(
        "UNKNOWN_SCHEMA",
        "user",
        "no schema is called {name}",
        "did you mean {nearest}? otherwise write CREATE SCHEMA",
        "3D003",
    ),
    Condition(
        "NAME_TOO_LONG", "user", "the name {name} has too many parts", "a name is [database.[schema.]]name", "42601"
    ),
    Condition(
        "DUPLICATE_STORE", "user", "the store {name} is declared twice", "rename or remove one of the two", "42P05"
    ),
    Condition(
        "RELATION_CONTRADICTS",
        "user",
        "{name} is declared twice, with different definitions",
        "with IF NOT EXISTS the first one is used: write both alike, or remove one",
        "42P17",
    ),
    Condition(
        "KEY_FORMAT_WITHOUT_KEY",
        "user",
        "'key.format' of {relation} has no effect, its records have no key",
        "name the key with PARTITION BY, 'key.columns' or, for records that others write, 'key.type'; or leave "
        "'key.format' out",
    ),
    Condition(
        "DUPLICATE_RELATION",
        "user",
        "the relation {name} is declared twice",
        "rename or remove one of the two",
        "42P17",
    ),
    Condition(
        "DUPLICATE_DATABASE",
        "user",
        "the database {name} is declared twice",
        "write IF NOT EXISTS, or remove one",
        "42P04",
    ),
    Condition(
        "DUPLICATE_SCHEMA", "user", "the schema {name} is declared twice", "write IF NOT EXISTS, or remove one", "42P06"
    ),
    Condition(
        "DUPLICATE_COLUMN",
        "user",
        "the column {name} occurs twice in {relation}",
        "give one of them another name with AS",
    ),
    Condition(
        "STARTING_POSITION_INCOMPLETE",
        "user",
        "'starting.position' = {position} needs '{name}'",
        "write '{name}' = {example}",
        "3D021",
    ),
    Condition(
        "STARTING_PROPERTY_UNUSED",
        "user",
        "'{name}' has no meaning with 'starting.position' = {position}",
        "write 'starting.position' = {belongs}, or remove it",
    ),
    Condition(
        "STARTING_POSITION_NOT_HERE",
        "user",
        "a store of type {kind} cannot start reading at 'starting.position' = {position}",
        "write 'starting.position' = {positions}",
    ),
    Condition(
        "STARTING_PARTITION_UNKNOWN",
        "user",
        "{entity} has no partition {partition}, which 'starting.offsets' names",
        "name partitions of {partitions}; partitions that are not named begin with their oldest record",
    ),
    Condition(
        "STARTING_OFFSET_GONE",
        "user",
        "'starting.offsets' begins partition {partition} of {entity} at {offset}, and its oldest record is {first}",
        "write {partition}:{first}, or 'source.data.loss' = skip after the source to count the lost records",
    ),
    Condition(
        "STARTING_OFFSET_BEYOND_END",
        "user",
        "'starting.offsets' begins partition {partition} of {entity} at {offset}, and it ends at {end}",
        "write {partition}:{end} to begin with the next record, or a smaller offset",
    ),
    Condition(
        "STARTING_OFFSET_UNKNOWN",
        "user",
        "'starting.offsets' begins partition {partition} of {entity} at {offset}, and no record there has this number",
        "write the number of a record that `ds print` shows for this partition, or leave {partition} out to begin with "
        "its oldest record",
    ),
    Condition(
        "DATA_LOSS_NOT_SKIPPED",
        "user",
        "a store of type {kind} cannot skip lost records",
        "remove 'source.data.loss': lost records end the query",
    ),
    Condition("UNKNOWN_PROPERTY", "user", "unknown property {name} in {place}", "did you mean {nearest}?", "3D008"),
    Condition(
        "PROPERTY_TWICE",
        "user",
        "{name} and {same_as} are two names of one property",
        "remove one of the two",
    ),
    Condition("PROPERTY_INVALID", "user", "the property {name} cannot be {value}", "allowed: {allowed}", "3D008"),
    Condition("PROPERTY_MISPLACED", "user", "the property {name} is not allowed in {place}", "write it in {belongs}"),
    Condition(
        "PROPERTY_OF_OTHER_STORE",
        "user",
        "the property {name} has no meaning for a store of type {kind}",
        "it is for {kinds}; remove it or choose another store",
    ),
    Condition(
        "PROPERTY_OF_OTHER_KIND",
        "user",
        "the property {name} has no meaning for a {kind}",
        "it is for {kinds}; remove it",
    ),
    Condition(
        "REFRESH_CONTRADICTS",
        "user",
        "'refresh.mode' = {mode} is not possible for {relation}: {reason}",
        "write 'refresh.mode' = 'incremental', or leave it out",
    ),
    Condition(
        "RETENTION_COLUMN",
        "user",
        "{relation} has a column {column}, which 'retention.millis' adds",
        "give the column another name: AS …",
    ),
    Condition("PROPERTY_NOT_YET", "not_yet", "the property {name} is not built yet", "{reason}"),
    Condition("PROPERTY_VALUE_NOT_YET", "not_yet", "{name} = {value} is not built yet", "{reason}"),
    Condition(
        "REFERENCE_NOT_HERE",
        "not_yet",
        "the property {name} cannot be a reference to the environment",
        "write the value itself; references are allowed in addresses, user names and secrets of CREATE STORE",
    ),
    Condition(
        "LITERAL_SECRET",
        "user",
        "the secret {name} of {owner} is written in a file",
        "keep it in the environment or in the project's .env and write '{name}' = '${{NAME}}'",
    ),
    Condition(
        "CONFIG_FILE_INVALID",
        "user",
        "the config_file {file} of store {store} is not usable: {reason}",
        "it holds lines name = value; its path is relative to the project {folder}",
    ),
    Condition(
        "VALUE_FILE_UNREADABLE",
        "user",
        "the file {file} is not usable: {reason} (used by {used_by})",
        "create it with the value inside, readable by the engine",
    ),
    Condition(
        "OVERLAY_INVALID",
        "user",
        "the overlay {file} is not usable: {reason}",
        "correct it, or run `ds up` to rewrite it",
    ),
    Condition("STORE_TYPE_MISSING", "user", "the store {name} has no type", "write 'type' = one of {known}", "3D021"),
    Condition("STORE_TYPE_UNKNOWN", "user", "no type of store is called {name}", "did you mean {nearest}?", "3D008"),
    Condition("STORE_TYPE_NOT_YET", "not_yet", "stores of type {name} are not built yet", "{reason}"),
    Condition(
        "STORE_PROPERTY_MISSING",
        "user",
        "the store {store} needs {name}: {reason}",
        "write '{name}' = {example}",
        "3D021",
    ),
    Condition(
        "RELATION_PROPERTY_MISSING",
        "user",
        "{relation} needs {name}: its store is of type {type}",
        "write '{name}' = {example} into its WITH",
    ),
    Condition(
        "STORE_PROPERTIES_CONTRADICT", "user", "in store {store} {first} and {second} contradict: {reason}", "{fix}"
    ),
    Condition(
        "NO_CURRENT_STORE",
        "user",
        "{name} names no store and there is no current one",
        "write 'store' = …, USE STORE …, or set store in the project's settings",
        "3D006",
    ),
    Condition(
        "STORE_CANNOT_HOLD",
        "user",
        "a {kind} cannot be in the store {store} of type {type}",
        "{fix}",
    ),
    Condition(
        "COUNT_NOT_INFERRED",
        "user",
        "{name} of {relation} cannot be inferred: {reason}",
        "write '{name}' = a whole number into its WITH",
        "3D021",
    ),
    Condition(
        "RELATION_KIND_MISMATCH",
        "user",
        "this SELECT yields a {yields}, not a {kind}: {reason}",
        "write CREATE {fix}",
    ),
    Condition(
        "INSERT_KIND_MISMATCH",
        "user",
        "this SELECT yields a {yields}, {target} is a {kind}: {reason}",
        "insert into a {yields}",
    ),
    Condition(
        "PRIMARY_KEY_MISSING",
        "user",
        "the changelog {relation} has no PRIMARY KEY",
        "add PRIMARY KEY (column) to its columns",
    ),
    Condition(
        "PRIMARY_KEY_NOT_SELECTED",
        "user",
        "the key of {relation} is {key}, but {missing} is not among its columns",
        "select {missing} as well",
    ),
    Condition(
        "KEY_COLUMN_UNKNOWN",
        "user",
        "{property} names {name}, which is not a column of {relation}",
        "did you mean {nearest}?",
    ),
    Condition(
        "KEY_COLUMN_TYPE",
        "user",
        "{name} of type {type} cannot be part of a key of {relation}",
        "keys are made of scalar columns; in a query JSON_STRING(value) makes a text of it",
    ),
    Condition(
        "KEY_PRIMITIVE",
        "user",
        "a primitive key of {relation} cannot be made of {columns}",
        "a primitive key is one column of VARCHAR, VARBINARY, BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, FLOAT, "
        "DOUBLE; write 'key.format' = 'json' for others",
    ),
    Condition(
        "KEY_OF_BYTES",
        "user",
        "a primitive key of {relation} cannot be VARBINARY: {store} keeps keys as text",
        "write 'key.format' = 'json', where bytes are Base64, or, where they are UTF-8, CAST(value AS VARCHAR)",
    ),
    Condition("KEY_CONTRADICTS", "user", "{first} and {second} of {relation} contradict: {reason}", "{fix}"),
    Condition(
        "KEY_TYPE_INVALID",
        "user",
        "key.type {value} of {relation} is not usable: {reason}",
        "write a scalar type for primitive keys, STRUCT<name TYPE, …> for json keys",
    ),
    Condition(
        "VALUE_COLUMNS_ALL_EXCLUDED",
        "user",
        "value.columns.exclude leaves no column in the values of {relation}",
        "keep at least one",
    ),
    Condition(
        "VALUE_PRIMITIVE",
        "user",
        "a primitive value of {relation} cannot be made of {columns}",
        "a primitive value is one column of VARCHAR, VARBINARY, BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, FLOAT, "
        "DOUBLE; write 'value.format' = 'json' for others",
    ),
    Condition(
        "TIMESTAMP_COLUMN_UNKNOWN",
        "user",
        "timestamp names {name}, which is not a column of {relation}",
        "did you mean {nearest}?",
    ),
    Condition(
        "TIMESTAMP_COLUMN_TYPE",
        "user",
        "the event time of {relation} cannot be {name} of type {type}",
        "use a column of type BIGINT (epoch milliseconds), TIMESTAMP or TIMESTAMP_LTZ",
    ),
    Condition(
        "COLUMN_NAME_RESERVED",
        "user",
        "a column cannot be called {name}, ds_dagster uses that name itself",
        "write … AS another_name, or declare the column under another name",
    ),
    Condition(
        "TIMESTAMP_FORMAT_UNUSED",
        "user",
        "'timestamp.format' of {relation} has no effect: {reason}",
        "leave it out; a BIGINT event time is in milliseconds since 1970 and has no format",
    ),
    Condition(
        "COLUMNS_MISSING",
        "user",
        "{relation} has no columns",
        "list them: CREATE {kind} {relation} (name TYPE, …) WITH (…)",
    ),
    Condition(
        "DELIVERY_NOT_AVAILABLE",
        "user",
        "{relation} cannot be written exactly once: {reason}",
        "leave out 'delivery', or write 'delivery' = at_least_once",
    ),
    Condition(
        "ENTITY_SHARED",
        "user",
        "{relation} and {other} both write the entity {entity} of store {store}",
        "give one of them another 'topic', or write INSERT INTO {other} instead",
    ),
)
