"""Conditions of the topic: dead letters (logs of rows that a query leaves out), and sending their records again."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "ROW_LOG_UNUSED",
        "user",
        "'{name}' without '{handling}' = 'IGNORE_AND_LOG'",
        "set both, or leave the log out",
        "22023",
    ),
    Condition(
        "ROW_LOG_NOT_HERE",
        "user",
        "store {store} ({kind}) cannot keep a log of rows",
        "name a KAFKA store: '{property}' = …",
        "0A000",
    ),
    Condition(
        "ROW_LOG_WITHOUT_RECORDS",
        "user",
        "{relation} ({kind}) is read as rows, not as records with a key and a value that a log could keep",
        "use IGNORE; rows left out are counted",
        "0A000",
    ),
    Condition(
        "ROW_LOG_IS_SOURCE",
        "user",
        "the log would be written into {entity}, which is being read",
        "name another topic for it",
        "22023",
    ),
    Condition(
        "ROW_LOG_COLUMNS",
        "user",
        "the log would be written into {entity}, and relation {relation} over it cannot read entries of a log",
        "name another topic, or declare it as a STREAM of JSON with columns out of {columns}",
        "42804",
    ),
    Condition(
        "ROW_ERRORS_OF_CHANGELOG",
        "user",
        "'row.error.handling' where {relation} is read: a row left out of a changelog would leave its older "
        "version in place",
        "leave it out, and compute with TRY_CAST where a value may not fit",
        "0A000",
    ),
    Condition(
        "ROW_ERRORS_OF_PYTHON",
        "not_yet",
        "'row.error.handling' with the Python function {function} is not built",
        "let the function return NULL where it cannot compute a value, or write it in Java",
        "0A000",
    ),
    Condition(
        "LATE_ROWS_WITHOUT_WINDOW",
        "user",
        "'late.rows.relation' without a window that drops late rows",
        "read from TUMBLE, HOP or CUMULATE; a SESSION cannot keep them, its late rows are counted",
        "0A000",
    ),
    Condition(
        "LATE_ROWS_RELATION",
        "user",
        "{relation} cannot keep late rows: {reason}",
        "declare it before, in a KAFKA store: CREATE STREAM {relation} ({columns}) WITH ('topic' = …, 'value.format' = "
        "'json'), with any of these columns",
        "42804",
    ),
    Condition(
        "ROW_LOG_FULL",
        "user",
        "more than {megabytes} MB of rows for the log {log} in one batch",
        "correct the expression that makes so many rows fail, or bound a batch: 'max.records.per.batch'",
        "54000",
    ),
    Condition(
        "REDRIVE_REFUSED",
        "user",
        "records of {relation} cannot be sent again: {reason}",
        "{hint}",
    ),
    Condition(
        "REDRIVE_RECORD_GONE",
        "user",
        "{count} of the records to send are no longer in {entity}, the first is {first}",
        "`ds redrive {relation} --export FILE` writes the rows that are known of them: put the value of each record "
        "into the file, or remove its line, then use `--from FILE`",
    ),
    Condition(
        "REDRIVE_LATE_AGAIN",
        "user",
        "{count} of the records to send would be late again, the first is {first}: event time is the column {columns}",
        "`ds redrive {relation} --export FILE` writes them into a file: change {columns}, then use `--from FILE`",
    ),
    Condition(
        "REDRIVE_WOULD_DOUBLE",
        "user",
        "{count} of the records to send are in results already, the first is {first}: {queries} would take them twice",
        "`--where \"query = '…'\"` selects other records; `--allow duplicates` sends them all the same; records that a "
        "query has not read, or has left out without a log, are not doubled",
    ),
    Condition(
        "REDRIVE_UNDER_WAY",
        "user",
        "another run is sending {count} records into {entity}, or was interrupted while it did",
        "run the command again in {seconds} s: it looks for these records in the stream first",
    ),
    Condition(
        "REDRIVE_UNCERTAIN",
        "user",
        "a run was interrupted while it sent {count} records into {entity}, and records of that time are gone from it; "
        "the first is {first}",
        "look for their rows in the results; `--allow duplicates` sends them again, also if they had arrived",
    ),
    Condition(
        "REDRIVE_FILE_INVALID",
        "user",
        "line {line} of {file} is not a valid repair: {reason}",
        "write the file with `ds redrive {relation} --export {file}`, and change only key and value, or remove lines",
    ),
    Condition(
        "REDRIVE_WHERE_INVALID",
        "user",
        "--where is not a valid condition over the entries: {problem}",
        "columns are {columns}; texts are in single quotes",
    ),
)
