"""Conditions of the topic: previews and test cases."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "PREVIEW_NOT_YET",
        "not_yet",
        "{name} cannot be previewed yet: it {reason}",
        "preview a query over streams and changelogs of JSON or primitive records; `ds test` runs any query",
    ),
    Condition(
        "MASK_UNKNOWN",
        "user",
        "no record has {columns}",
        "name members of the JSON of keys or values, as `ds print` shows them",
    ),
    Condition(
        "MASK_NOT_YET",
        "not_yet",
        "the keys of {relation} are bytes, in which {columns} cannot be masked yet",
        "record without masking, and edit the file before you share it",
    ),
    Condition(
        "PREVIEW_NOT_A_QUERY",
        "user",
        "{text} is not a query of this project, and not a valid SELECT",
        "name a relation that a query fills ({names}), or write a SELECT in quotes",
    ),
    Condition("CASE_UNREADABLE", "user", "the test case {file} cannot be read: {reason}", "store it as UTF-8 YAML"),
    Condition("CASE_KEY_UNKNOWN", "user", "{place} has no key {key}", "did you mean {nearest}?"),
    Condition("CASE_KEY_MISSING", "user", "{place} needs {key}", "add {key}: {example}"),
    Condition("CASE_KEY_TWICE", "user", "the key {key} is written twice", "remove one of the two"),
    Condition("CASE_VALUE_INVALID", "user", "{place} cannot be {value}", "allowed: {allowed}"),
    Condition(
        "CASE_DATA_INVALID",
        "user",
        "line {line} of {file} is not a valid {what}: {reason}",
        "write one JSON object per line",
    ),
    Condition(
        "CASE_GENERATOR",
        "user",
        "the query of generate makes no records: {reason}",
        "write a SELECT of Spark's SQL with a column value, and optionally key, at, partition: "
        "SELECT named_struct('id', id) AS value FROM range(1000)",
    ),
    Condition(
        "CASE_TOPIC_UNKNOWN", "user", "nothing in this case reads or writes a topic {topic}", "did you mean {nearest}?"
    ),
    Condition("CASE_TOPIC_AMBIGUOUS", "user", "several stores have a topic {topic}: {stores}", "add store: {example}"),
    Condition(
        "CASE_STORE_REAL",
        "user",
        "query {query} needs the store {store}, which is not in memory",
        "add {store}: memory under stores",
    ),
    Condition(
        "CASE_RECORD_UNREADABLE",
        "user",
        "a record of {relation} is not a valid {what}",
        "compare the raw records: topic and records instead of relation and rows",
    ),
    Condition(
        "CASE_NONE_FOUND", "user", "there are no test cases in {places}", "test cases are files called *.case.yaml"
    ),
    Condition(
        "CASE_NONE_MATCHES",
        "user",
        "no test case in {places} has {pattern} in its path or title",
        "leave -k out to run all ({count})",
    ),
    Condition(
        "INJECTED_CRASH", "external", "the test case crashed this batch", "nothing to do: the query starts again"
    ),
)
