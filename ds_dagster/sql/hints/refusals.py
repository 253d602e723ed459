"""Statements that are refused by name: first words → condition. The longest match wins."""

from __future__ import annotations

from collections.abc import Iterable

_HOSTED_OBJECTS: dict[str, str] = {
    "role": "HOSTED_ROLES",
    "user": "HOSTED_USERS",
    "organization": "HOSTED_ORGANIZATION",
    "api_token": "HOSTED_TOKEN",
    "invitation": "HOSTED_USERS",
    "metrics integration": "HOSTED_INTEGRATION",
    "security integration": "HOSTED_INTEGRATION",
    "integration": "HOSTED_INTEGRATION",
    "sandbox": "HOSTED_SANDBOX",
}
_LATER_OBJECTS: dict[str, str] = {
    "descriptor": "DESCRIPTOR_NOT_YET",
    "index": "INDEX_NOT_YET",
}
_CREATE_ONLY: dict[str, str] = {
    "or replace": "OR_REPLACE_UNSUPPORTED",
    "view": "CREATE_VIEW_UNSUPPORTED",
    "application": "APPLICATION_WITHOUT_BEGIN",
    "temporary": "SESSION_STATEMENT_UNSUPPORTED",
    "aggregate function": "FUNCTION_WITH_STATE",
    "table function": "FUNCTION_WITH_STATE",
}
_OWN_OBJECTS = (
    "store", "database", "schema", "entity", "stream", "changelog", "table", "materialized view", "relation", "topic",
    "query", "application", "view", "schema_registry", "secret",
    "descriptor_source", "function", "function_source", "compute_pool",
)  # fmt: skip
_UPDATABLE = ("store", "schema_registry")
_HOSTED_VERBS = ("create", "update", "alter", "drop", "use", "start", "stop", "describe", "list")
_LATER_VERBS = ("create", "update", "alter", "drop", "copy")
_FIRST_WORDS: dict[str, str] = {
    "grant": "HOSTED_ROLES",
    "revoke": "HOSTED_ROLES",
    "revoke invitation": "HOSTED_USERS",
    "can i": "HOSTED_ROLES",
    "invite": "HOSTED_USERS",
    "accept": "HOSTED_USERS",
    "reject": "HOSTED_USERS",
    "set default": "HOSTED_SETTING",
    "set": "SESSION_STATEMENT_UNSUPPORTED",
    "reset": "SESSION_STATEMENT_UNSUPPORTED",
    "end application": "APPLICATION_WITHOUT_BEGIN",
    "begin": "SESSION_STATEMENT_UNSUPPORTED",
    "commit": "SESSION_STATEMENT_UNSUPPORTED",
    "rollback": "SESSION_STATEMENT_UNSUPPORTED",
    "insert into entity": "STATEMENT_OF_SHELL",
    "insert overwrite": "CHANGE_DATA_UNSUPPORTED",
    "generate": "GENERATE_NOT_YET",
    "generate columns": "STATEMENT_OF_SHELL",
    "copy": "GENERATE_NOT_YET",
    "terminate": "TERMINATE_IN_FILE",
    "restart": "RESTART_IN_FILE",
    "resume": "RESTART_IN_FILE",
    "explain": "EXPLAIN_IN_FILE",
    "delete": "CHANGE_DATA_UNSUPPORTED",
    "update": "CHANGE_DATA_UNSUPPORTED",
    "merge": "CHANGE_DATA_UNSUPPORTED",
    "truncate": "CHANGE_DATA_UNSUPPORTED",
    "analyze": "SESSION_STATEMENT_UNSUPPORTED",
    "call": "SESSION_STATEMENT_UNSUPPORTED",
    "from": "SYNTAX_UNEXPECTED",
    "start": "RESTART_IN_FILE",
    "stop": "TERMINATE_IN_FILE",
    "drop": "DROP_IN_FILE",
    "alter": "ALTER_IN_FILE",
}


def _pairs() -> Iterable[tuple[str, str]]:
    yield from _FIRST_WORDS.items()
    for verbs, objects in ((_HOSTED_VERBS, _HOSTED_OBJECTS), (_LATER_VERBS, _LATER_OBJECTS)):
        for verb in verbs:
            yield from ((f"{verb} {thing}", condition) for thing, condition in objects.items())
    yield from ((f"create {thing}", condition) for thing, condition in _CREATE_ONLY.items())
    for thing in _OWN_OBJECTS:
        if thing not in _UPDATABLE:
            yield f"update {thing}", "UPDATE_DEFINITION"
        yield f"drop {thing}", "DROP_IN_FILE"
        yield f"alter {thing}", "ALTER_IN_FILE"


REFUSED: dict[tuple[str, ...], str] = {tuple(words.split()): condition for words, condition in _pairs()} | {
    ("update", "entity"): "STATEMENT_OF_SHELL",
    ("drop", "entity"): "STATEMENT_OF_SHELL",
    **dict.fromkeys(((verb, "compute_pool") for verb in ("start", "stop", "describe")), "COMPUTE_POOL_COMMAND"),
    ("use", "compute_pool"): "COMPUTE_POOL_USE",
}
LONGEST = max(map(len, REFUSED))


def refused(words: tuple[str, ...]) -> tuple[tuple[str, ...], str] | None:
    """The longest refused form at the beginning of these words, and its condition; None if there is none."""
    for count in range(min(LONGEST, len(words)), 0, -1):
        condition = REFUSED.get(words[:count])
        if condition:
            return words[:count], condition
    return None
