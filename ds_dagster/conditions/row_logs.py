"""Conditions of the topic: logs of rows that a query leaves out."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "ROW_LOG_UNUSED",
        "user",
        "'{name}' without '{handling}' = 'IGNORE_AND_LOG'",
        "write that too, or leave the log out",
        "22023",
    ),
    Condition(
        "ROW_LOG_NOT_HERE",
        "user",
        "store {store} ({kind}) cannot keep a log of rows",
        "name a KAFKA store: 'source.deserialization.error.log.store' = …",
        "0A000",
    ),
    Condition(
        "ROW_LOG_WITHOUT_RECORDS",
        "user",
        "what is read of {relation} ({kind}) are rows, not records whose key and value a log could keep",
        "use IGNORE; rows left out are counted",
        "0A000",
    ),
    Condition(
        "ROW_LOG_IS_SOURCE",
        "user",
        "the log of bad records would be written into {entity}, which is being read",
        "name another topic: 'source.deserialization.error.log.topic' = …",
        "22023",
    ),
    Condition(
        "ROW_LOG_COLUMNS",
        "user",
        "a log of rows would be written into {entity}, which relation {relation} holds otherwise",
        "name another topic, or declare it as a STREAM of JSON with columns out of {columns}",
        "42804",
    ),
    Condition(
        "ROW_LOG_FULL",
        "user",
        "more than {megabytes} MB of rows for the log {log} in one batch",
        "correct what makes so many rows fail, or bound a batch: 'max.records.per.batch'",
        "54000",
    ),
)
