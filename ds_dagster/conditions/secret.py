"""Conditions of the topic: declared secrets, the places of their values, and UPDATE of stores and registries."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition("UNKNOWN_SECRET", "user", "no secret is called {name}", "did you mean {nearest}?", "3D000"),
    Condition("SECRET_REFUSED", "user", "the secret {name} was refused", "correct CREATE SECRET {name} first"),
    Condition(
        "DUPLICATE_SECRET", "user", "the secret {name} is declared twice", "rename or remove one of the two", "42710"
    ),
    Condition(
        "SECRET_TYPE_UNKNOWN",
        "user",
        "the secret {name} has the type {type}",
        "write 'type' = one of {known}",
        "3D008",
    ),
    Condition(
        "SECRET_PROPERTY_MISSING",
        "user",
        "the secret {secret} of type {type} needs {name}",
        "write '{name}' = {example}",
    ),
    Condition(
        "SECRET_PROPERTY_OF_OTHER_TYPE",
        "user",
        "the property {name} has no meaning for a secret of type {type}",
        "remove it, or correct the type",
    ),
    Condition(
        "SECRET_IN_SECRET",
        "user",
        "{name} of the secret {secret} refers to another secret",
        "name that secret directly where the value is used",
    ),
    Condition(
        "SECRET_REFERENCE_INVALID",
        "user",
        "the property {name} holds a reference to a secret that cannot be read",
        "write ${{secret:name}}: no default, no blanks, no colon in the name",
    ),
    Condition(
        "SECRET_FILE_OPEN",
        "user",
        "the file {file} of the secret {secret} can be read by every user of this machine",
        "run: chmod o-r {file}",
    ),
    Condition(
        "SECRET_MISSING",
        "user",
        "the secret {secret} ({where}) has no value: {reason} (used by {used_by})",
        "create it there, or correct CREATE SECRET {secret}",
    ),
    Condition(
        "SECRET_DENIED",
        "user",
        "the secret {secret} ({where}) may not be read here: {reason} (used by {used_by})",
        "give the engine's process cloud credentials that allow secretsmanager:GetSecretValue on it",
    ),
    Condition(
        "SECRET_UNREACHABLE",
        "unreachable",
        "the secret {secret} ({where}) cannot be read now (used by {used_by})",
        "see the detail; it is retried",
    ),
    Condition(
        "SECRET_ROTATED",
        "external",
        "{store} refused the login, and the secret {secrets} has another value now",
        "it restarts with the new value",
    ),
    Condition(
        "UPDATE_NOT_ALLOWED",
        "user",
        "UPDATE {what} {target} cannot change {name}",
        "change it in the CREATE statement",
    ),
    Condition(
        "UPDATE_TWICE",
        "user",
        "two updates of {target} set {name}; the other is at {other}",
        "remove one of them: files have no order, so neither is the later one",
    ),
)
