"""Conditions of the topic: stores that are connected to, entities in them, loads into tables and views."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "STORE_UNREACHABLE",
        "external",
        "the store {store} at {address} does not answer",
        "check the address and that the server runs (`ds up` starts local ones); it is tried again by itself",
        "57015",
    ),
    Condition(
        "STORE_LOGIN_REFUSED",
        "user",
        "the store {store} at {address} refused the login of {user}",
        "correct user and password in CREATE STORE or in the environment",
    ),
    Condition(
        "STORE_ROLE_REFUSED",
        "user",
        "the store {store} at {address} does not let {user} take the role {role}",
        "grant the role to that user, or correct the role in CREATE STORE",
    ),
    Condition(
        "STORE_ACCOUNT_UNKNOWN",
        "user",
        "no account of the store {store} answers at {address}",
        "correct account and region in CREATE STORE",
    ),
    Condition(
        "STORE_WAREHOUSE_MISSING",
        "user",
        "the store {store} has no warehouse {warehouse} that {user} may use now",
        "correct the warehouse in CREATE STORE, grant USAGE on it, or lift the limit of its resource monitor",
    ),
    Condition(
        "STORE_KEY_INVALID",
        "user",
        "the key file {file} of the store {store} cannot be used: {reason}",
        "give the PEM file of the user's RSA private key, and its passphrase if it is encrypted",
    ),
    Condition(
        "STORE_PERMISSION_DENIED",
        "user",
        "the store {store} does not allow {user} to {action}",
        "grant the permission to that user",
        "42501",
    ),
    Condition(
        "STORE_TLS_FAILED",
        "user",
        "no TLS connection to the store {store} at {address}: {reason}",
        "{fix}",
    ),
    Condition(
        "STORE_PROTOCOL_DIFFERS",
        "user",
        "the store {store} at {address} expects {expected}, CREATE STORE says {said}",
        "{fix}",
    ),
    Condition(
        "STORE_CREDENTIALS_MISSING",
        "user",
        "there are no credentials for the store {store}: {reason}",
        "give the engine's process credentials of the cloud (environment, profile or role), or correct the role",
    ),
    Condition(
        "STORE_CALL_FAILED",
        "external",
        "the store {store} failed to {action}",
        "see the detail; it is tried again by itself",
    ),
    Condition(
        "STORE_NOT_A_SOURCE",
        "not_yet",
        "{relation} cannot be read as a stream: its store is of type {type}",
        "read the topic its query reads instead",
    ),
    Condition(
        "STORE_KIND_TWICE", "user", "two installed packages offer the store type {name}", "uninstall one of them"
    ),
    Condition(
        "STORE_KIND_BROKEN",
        "user",
        "the installed store type {name} ({source}) cannot be loaded",
        "repair or uninstall its package",
    ),
    Condition(
        "STORE_DRIVER_MISSING",
        "user",
        "stores of type {type} need the Python package {package}",
        "pip install {package}",
    ),
    Condition(
        "STORE_BUCKET_MISSING",
        "user",
        "the bucket {bucket} of store {store} does not exist",
        "create the bucket, or correct the address in CREATE STORE",
    ),
    Condition(
        "DATABRICKS_WAREHOUSE_MISSING",
        "user",
        "the workspace {address} has no SQL warehouse {warehouse} for store {store}",
        "correct 'databricks.warehouse_id': it stands in the warehouse's connection details",
    ),
    Condition(
        "DATABRICKS_LOCATION_REFUSED",
        "user",
        "the workspace of store {store} does not take the place of {table}'s files: {reason}",
        "create an external location over it in Unity Catalog and grant CREATE EXTERNAL TABLE on it",
    ),
    Condition(
        "STORE_FOLDER_INVALID",
        "user",
        "the store {store} cannot keep tables at {address}: {reason}",
        "name a folder this process may create and write in",
    ),
    Condition(
        "ENTITY_MISSING",
        "user",
        "{entity} does not exist in store {store} and cannot be created: {reason}",
        "create it there, or write {missing} into the WITH of {relation}",
        "3D007",
    ),
    Condition(
        "ENTITY_COUNT_DIFFERS",
        "user",
        "{entity} in store {store} has {name} = {found}, {relation} says {wanted}",
        "write {found}, or leave it out",
    ),
    Condition("ENTITY_NAME_INVALID", "user", "{entity} cannot be the name of an entity in store {store}", "{allowed}"),
    Condition(
        "ENTITY_REFUSED",
        "user",
        "the store {store} refused to create {entity}",
        "see the detail; correct the properties of {relation}",
    ),
    Condition(
        "TARGET_DIFFERS",
        "user",
        "the table {table} exists with another shape: {difference}",
        "drop or rename it, or give the relation another table name",
    ),
    Condition(
        "TARGET_NOT_A_TABLE",
        "user",
        "{table} exists and is no table but a {found}",
        "give the relation another table name",
    ),
    Condition(
        "TARGET_COLUMNS_CLASH",
        "user",
        "the columns {first} and {second} of {relation} are the same column {column} in store {store}",
        "give one of them another name",
    ),
    Condition(
        "TARGET_COLUMN_NAME_INVALID",
        "user",
        "{relation} cannot be kept as a table of type {type}: column names {names}",
        "rename with AS: no spaces, no signs of {forbidden}, no two names that differ in upper and lower case only",
    ),
    Condition(
        "TARGET_GONE",
        "user",
        "what was loaded of {table} so far has disappeared",
        "somebody removed its folder; `ds reset` the query to load it anew",
    ),
    Condition(
        "TARGET_BUSY",
        "external",
        "batch {epoch} found other writers of {table} {attempts} times in a row",
        "load the table from one place; it is tried again by itself",
    ),
    Condition(
        "TARGET_OF_OTHER_JOB",
        "user",
        "the table {table} holds rows that another project or state folder loaded",
        "write 'refresh.mode' = 'full', drop the table, or give the relation another table name",
    ),
    Condition(
        "TARGET_SHARED_RESET",
        "user",
        "the table {table} is filled by several queries, so one of them cannot start anew",
        "delete the rows by hand, or reset the queries with a new table name",
    ),
    Condition(
        "TARGET_SCHEMA_MISSING",
        "user",
        "the schema {schema} does not exist in store {store}",
        "create it: CREATE SCHEMA {schema}",
    ),
    Condition(
        "TARGET_DATABASE_MISSING",
        "user",
        "the database {database} does not exist in store {store}",
        "create it, or correct its name where the store or the relation gives it",
    ),
    Condition(
        "TARGET_REJECTS_ROWS",
        "user",
        "the table {table} rejects rows of batch {epoch}: {reason}",
        "change the query so that its rows fit, or the table",
    ),
    Condition(
        "LEDGER_NEWER",
        "user",
        "{table} was written by checkpoint version {found}, this job is version {version}",
        "a newer run has taken over; stop this one, or `ds reset` the query",
    ),
    Condition("DISK_FULL", "external", "no space is left for {what}", "free disk space; it is tried again by itself"),
    Condition(
        "VIEW_MISSING",
        "user",
        "the view {view} has not been written yet",
        "materialize its asset, or run `ds apply`",
        "3E003",
    ),
    Condition(
        "VIEW_UNREADABLE",
        "external",
        "the file of view {view} cannot be read",
        "see the detail; it is tried again by itself, and `ds reset` builds the view anew",
    ),
)
