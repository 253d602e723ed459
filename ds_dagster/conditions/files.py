"""Conditions of the topic: plain files in folders and buckets."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "FILE_UNREADABLE",
        "user",
        "the file {file} cannot be read as {format}: {reason}",
        "repair or remove the file, or correct 'value.format' and the csv properties of the relation; `ds restart` "
        "then reads on",
    ),
    Condition(
        "FILE_GONE",
        "user",
        "the file {file} of {entity} was removed before it was read",
        "put it back, or `ds reset` the query to start over; remove files only after the query has passed them",
    ),
    Condition(
        "FILE_CHANGED",
        "user",
        "the file {file} of {entity} had {before} bytes when it was found and has {now} now",
        "write a file under a hidden name (. or _ in front) and rename it when it is complete; `ds reset` the query to "
        "start over",
    ),
    Condition(
        "FILE_TOO_LATE",
        "user",
        "{count} files of {entity} appeared with a modification time older than the files that are remembered",
        "give them a new modification time (touch, or copy them again), or `ds reset` the query to read everything",
    ),
    Condition(
        "FILES_OFFSET_INVALID",
        "internal",
        "a position among files cannot be used: {offset}",
    ),
    Condition(
        "FILES_HOLD_NO_CHANGELOG",
        "unsupported",
        "{relation} cannot be a changelog in store {store}: files are only added, never changed",
        "declare a STREAM and make the changelog by a query over it; write changes as rows of a stream, or a table "
        "into a store of type DELTA",
    ),
    Condition(
        "VALUE_FORMAT_OTHER_STORE",
        "user",
        "stores of type {type} do not support the value format {format} of {relation}",
        "write 'value.format' = one of {allowed}",
    ),
    Condition(
        "FILES_PARTITION_TYPE",
        "user",
        "files of {relation} cannot be partitioned by {column} of type {type}",
        "partition by columns of type VARCHAR, BOOLEAN, DATE or whole numbers",
    ),
    Condition(
        "FILES_COMPRESSION_INVALID",
        "user",
        "files of the format {format} are not written with the compression {compression}",
        "write 'files.compression' = one of {allowed}",
    ),
    Condition(
        "FILES_CSV_ONE_COLUMN",
        "unsupported",
        "CSV files of {relation} have one column, {column}, which may be NULL: an empty line, which readers skip",
        "select a second column, or a value that is never NULL: COALESCE({column}, …) AS {column}; or write "
        "'value.format' = 'json' or 'parquet'",
    ),
    Condition(
        "FILES_BATCH_BOUND",
        "unsupported",
        "'max.records.per.batch' does not bound what is read of {relation}: a file is read as a whole",
        "write 'files.per.batch' into the WITH of {relation}",
    ),
    Condition(
        "FILES_LEDGER_INVALID",
        "user",
        "the ledger {file} of {entity} cannot be read",
        "restore it, or remove it together with the files the query wrote and `ds reset` the query",
    ),
)
