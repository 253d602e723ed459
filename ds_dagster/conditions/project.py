"""Conditions of a project as a whole: settings, files, environment."""

from __future__ import annotations

from ds_dagster.conditions.base import Condition

CONDITIONS: tuple[Condition, ...] = (
    Condition("PROJECT_INVALID", "user", "the project has {count} mistakes", "see the list; `ds check` shows it again"),
    Condition(
        "PROJECT_NOT_FOUND",
        "user",
        "no project in {folder} or above",
        "a project is a folder with [tool.ds-dagster] in pyproject.toml, or a ds.toml; `ds init` makes one",
    ),
    Condition(
        "SETTING_INVALID",
        "user",
        "setting {name} in {file} is not valid: {reason}",
        "allowed: {allowed}",
    ),
    Condition("SETTING_UNKNOWN", "user", "unknown setting {name} in {file}", "did you mean {nearest}?"),
    Condition(
        "ENVIRONMENT_REFERENCE_MISSING",
        "user",
        "environment variable {name} is not set (used by {used_by})",
        "set {name} where the engine runs, put it in the project's .env, or write a default: ${{{name}:-value}}",
    ),
    Condition(
        "SQLGLOT_COMPILED",
        "user",
        "the compiled build of sqlglot (package sqlglotc) is installed, which no other dialect can extend",
        "`pip uninstall sqlglotc`: sqlglot works without it; a package that installs it, as sqlglot[c] or sqlglot[rs], "
        "belongs into another environment",
    ),
    Condition("INTERNAL", "internal", "unexpected failure in {where}", "please report this with the text below"),
)
