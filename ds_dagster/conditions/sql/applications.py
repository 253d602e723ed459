"""Conditions of the topic: applications (several queries as one job) and virtual relations."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

GRAMMAR: tuple[Condition, ...] = (
    Condition(
        "APPLICATION_WITHOUT_BEGIN",
        "user",
        "{statement} without BEGIN APPLICATION",
        "write BEGIN APPLICATION name before its statements",
        "42601",
    ),
    Condition(
        "APPLICATION_WITHOUT_END",
        "user",
        "application {name} has no end",
        "write END APPLICATION; after its last statement",
        "42601",
    ),
    Condition(
        "APPLICATION_NESTED",
        "user",
        "application {name} has not ended yet",
        "write END APPLICATION; before the next BEGIN APPLICATION",
        "42601",
    ),
    Condition(
        "APPLICATION_STATEMENT",
        "unsupported",
        "{statement} is not allowed in an application",
        "write it before BEGIN APPLICATION; inside, only USE, CREATE of relations, and INSERT INTO are allowed",
        "0A000",
    ),
    Condition(
        "APPLICATION_EMPTY",
        "user",
        "application {name} fills no relation",
        "write at least one INSERT INTO or CREATE … AS SELECT that is not virtual",
        "42601",
    ),
    Condition(
        "APPLICATION_REFUSED",
        "user",
        "{relation} is refused with application {name}: another of its statements has a mistake ({other})",
        "correct that statement; an application runs as a whole or not at all",
    ),
    Condition(
        "VIRTUAL_OUTSIDE_APPLICATION",
        "user",
        "virtual relation {name} is outside of an application",
        "write it between BEGIN APPLICATION and END APPLICATION, or without VIRTUAL to give it a topic",
        "42601",
    ),
    Condition(
        "VIRTUAL_PROPERTIES",
        "user",
        "virtual relation {name} has no properties, since it has no topic",
        "write WITH after the relations it reads, or after the relations that read it and are not virtual",
        "42601",
    ),
)
QUERIES: tuple[Condition, ...] = (
    Condition(
        "VIRTUAL_QUERY_WITH",
        "user",
        "'{property}' on virtual relation {name} has no effect: it is about the job that runs a query",
        "write it in QUERY WITH of each query that reads {name}, or once: END APPLICATION WITH (…)",
        "0A000",
    ),
    Condition(
        "VIRTUAL_OF_ANOTHER",
        "user",
        "{relation} is a virtual relation of application {name}",
        "read it inside of that application, or give it a topic by CREATE without VIRTUAL",
        "42P01",
    ),
    Condition(
        "VIRTUAL_INSERT",
        "user",
        "nothing can be inserted into {relation}: it is virtual",
        "declare a relation with a topic and insert into that",
        "0A000",
    ),
    Condition(
        "VIRTUAL_READ_WITH",
        "user",
        "virtual relation {relation} is not read from a store, so WITH after it has no effect",
        "write WITH after the relations in the SELECT of {relation}",
        "0A000",
    ),
    Condition(
        "APPLICATION_SOURCE_DIFFERS",
        "user",
        "application {name} reads {relation} in two ways: {what} differs",
        "an application reads a source once; write the same WITH after {relation} everywhere, or move the query out",
        "0A000",
    ),
    Condition(
        "APPLICATION_OUTPUT_MODES",
        "unsupported",
        "the refined windows of {relation} cannot run in one job with another aggregate or join",
        "leave out 'emit.mode'='updates', or move the query out of application {name}",
        "0A000",
    ),
    Condition(
        "APPLICATION_STATE_SHARED",
        "user",
        "virtual relation {relation} keeps one state for all queries that read it, and their settings for it differ",
        "write the same QUERY WITH for all queries that read it, as END APPLICATION WITH (…) does; or give it a "
        "topic: CREATE without VIRTUAL",
        "0A000",
    ),
    Condition(
        "APPLICATION_CYCLE",
        "user",
        "application {name} reads a relation that is computed from its own results: {path}",
        "put the query between into the application too, or split the application",
        "42P19",
    ),
    Condition(
        "APPLICATION_ROW_ERRORS",
        "user",
        "the rows of virtual relation {relation} are computed once for all queries that read it, and {queries} "
        "handle failing rows differently",
        "write the same 'row.error.handling' and 'row.error.log.topic' for all of them: END APPLICATION WITH (…)",
        "0A000",
    ),
    Condition(
        "APPLICATION_POOLS",
        "user",
        "one engine runs an application, and {queries} name different compute pools",
        "write it once for all of them: END APPLICATION WITH ('compute_pool' = 'name')",
        "0A000",
    ),
    Condition(
        "APPLICATION_TABLE_FINITE",
        "unsupported",
        "table {relation} is loaded in batches, an application never ends",
        "write 'refresh.mode'='continuous' in its WITH, or move it out of application {name}",
        "0A000",
    ),
)
CONDITIONS: tuple[Condition, ...] = GRAMMAR + QUERIES
