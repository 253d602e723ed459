"""Conditions of the Dagster surface."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "ASSET_KEY_COLLISION",
        "user",
        "several relations map to the asset key {key}: {relations}",
        "rename one of them, or override DsTranslator.get_asset_key",
    ),
    Condition(
        "FRESHNESS_INVALID",
        "user",
        "@freshness {value} is not a valid limit of at least a minute",
        "write a number and a unit, then the figure if it is not rows: 10m, 2h of watermark, 1d of heartbeat",
    ),
    Condition(
        "MAX_LAG_INVALID",
        "user",
        "@max_lag {value} is not a valid duration",
        "write a number and a unit: 30s, 10m, 2h",
    ),
    Condition(
        "CHECK_UNKNOWN",
        "user",
        "the check {check} of {relation}, which {translator} gives, is not a valid health check",
        "a translator leaves out some of {known}; checks of your own are Dagster's @asset_check",
    ),
    Condition(
        "AUTOMATION_INVALID",
        "user",
        "@automation {value} is not a valid preset",
        "write on_change, or on_cron with five fields and, unless UTC, a time zone: on_cron 0 6 * * * Europe/Berlin",
    ),
    Condition(
        "CHECK_INVALID",
        "user",
        "@check {value} is not a valid limit, or its figure has one already",
        "write a figure, a sign, a number and warn or error: bad_records <= 10 warn; figures: {figures}",
    ),
    Condition(
        "PARTITIONS_INVALID",
        "user",
        "@partitions {value} is not a valid rule for time windows, or there are several",
        "write hourly, daily, weekly or monthly and the first day (for monthly the first of a month); the column and "
        "the lateness are optional: daily from 2024-05-01 by ordered_at lateness 1h",
    ),
    Condition(
        "PARTITIONS_WITH_RESET",
        "user",
        "a run of partitions of {name} cannot reset it: it replaces the rows of a range of time",
        "leave action at ensure; `ds reset {name}` computes all of it again",
    ),
    Condition(
        "OWNER_INVALID",
        "user",
        "@owner {owner} is neither a team nor an e-mail address",
        "write team:{name}, or an e-mail address",
    ),
    Condition(
        "RESOURCE_NOT_BOUND",
        "user",
        "the {type} is not tied to a declared store",
        'pass it to build_ds_definitions(resources={{"<store>": …}})',
    ),
    Condition(
        "RESOURCE_LITERAL_SECRET",
        "user",
        "the {store} holds a literal value in the secret field {field}",
        "pass dg.EnvVar(...): secrets travel to the engine as references only",
    ),
    Condition(
        "RESOURCE_UNKNOWN_STORE",
        "user",
        "the resource {store} replaces values of a store the project does not declare",
        "declare it with CREATE STORE, or rename the resource: {nearest}",
    ),
    Condition(
        "RESOURCE_UNKNOWN_FIELD",
        "user",
        "the resource of the store {store} has no field {field}",
        "correct it: {nearest}",
    ),
    Condition(
        "RELATION_NOT_STARTED",
        "external",
        "{count} queries did not reach RUNNING within {seconds} s: {names}",
        "look at `ds logs NAME`; the engine keeps retrying; materialize again to wait longer",
    ),
    Condition(
        "CONTROL_WITHOUT_QUERIES",
        "user",
        "{action} needs either names in queries or all: true",
        "write the names that `ds ps` shows into queries, or all: true",
    ),
    Condition(
        "SELECTION_INVALID",
        "user",
        "{selection} is not a valid asset selection: {reason}",
        'write it as in Dagster\'s UI, for example group:web, kind:kafka or key:"db/public/clicks"+',
    ),
    Condition(
        "SELECTION_EMPTY",
        "user",
        "no asset of the project is selected (select: {select}; exclude: {exclude})",
        "`ds ls relations` lists the relations; groups are names of SQL files unless @group says another",
    ),
    Condition(
        "SELECTION_SPLITS_APPLICATION",
        "user",
        "the application {application} is one job, and the selection leaves out {missing}",
        "select all relations of the application, or none",
    ),
    Condition(
        "KEY_PREFIX_NOT_USED",
        "user",
        "the project's key_prefix is '{prefix}', the translator {translator} has a different one",
        "make the translator with key_prefix=project.key_prefix",
    ),
    Condition(
        "STORE_NOT_USABLE",
        "external",
        "the store {store} cannot be used now: {found}",
        "look at it with: ds doctor --online",
    ),
    Condition(
        "RELATION_NOT_STOPPED",
        "external",
        "{count} queries have not stopped yet: {names}",
        "they finish their batch first: look at `ds ps`; the request is stored, you need not repeat it",
    ),
)
