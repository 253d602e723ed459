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
        "@freshness {value} is not a duration of at least a minute",
        "write a number and a unit: 10m, 2h, 1d",
    ),
    Condition(
        "RESOURCE_LITERAL_SECRET",
        "user",
        "resource {store} holds a literal value in the secret field {field}",
        "pass dg.EnvVar(...): secrets travel to the engine as references only",
    ),
    Condition(
        "RESOURCE_UNKNOWN_STORE",
        "user",
        "resource {store} replaces values of a store the project does not declare",
        "declare it with CREATE STORE, or rename the resource: {nearest}",
    ),
    Condition(
        "RELATION_NOT_STARTED",
        "external",
        "{count} queries did not reach RUNNING within {seconds} s: {names}",
        "look at `ds logs NAME`; the engine goes on trying, materialize again to wait longer",
    ),
    Condition(
        "RELATION_REFUSED",
        "user",
        "the statement of {relation} was refused",
        "mend the SQL at {place}, then reload definitions",
    ),
)
