"""JSON paths of the dialect: ``$``, ``.name``, ``['name']``, ``[n]``; in JSON_QUERY ``[*]`` once. All paths are lax;
the word ``lax`` at the start (Flink) is removed."""

from __future__ import annotations

import re

MODE = re.compile(r"^\s*(lax|strict)\s+", re.IGNORECASE)
STEP = re.compile(
    r"""\.(?P<name>[^.\[\]\s'"*()?@$]+)|"""
    r"""\[\s*(?:'(?P<quoted>[^']+)'|"(?P<double>[^"']+)"|(?P<at>\d{1,9})|(?P<all>\*))\s*\]"""
)


class PathError(Exception):
    """A text is not a path; the message says what to write instead."""


def canonical(text: str) -> str:
    """The path as Spark reads it.

    Raises:
        PathError: with a hint.
    """
    mode = MODE.match(text)
    if mode and mode[1].lower() == "strict":
        raise PathError(f"remove strict (an absent value gives NULL): '{text[mode.end() :]}'")
    path = text[mode.end() :] if mode else text.strip()
    if not path.startswith("$"):
        raise PathError(f"begin with $: '{_begun(path)}'")
    at, steps = 1, ["$"]
    while at < len(path):
        step = STEP.match(path, at)
        if step is None:
            raise PathError(_advice(path, at))
        steps.append(_spelled(step))
        at = step.end()
    return "".join(steps)


def _spelled(step: re.Match[str]) -> str:
    if step["all"]:
        return "[*]"
    if step["at"]:
        return f"[{int(step['at'])}]"
    name = step["name"]
    return f".{name}" if name else f"['{step['quoted'] or step['double']}']"


def _begun(path: str) -> str:
    return "$" + (path if path.startswith("[") or not path else f".{path.lstrip('.')}")


def _advice(path: str, at: int) -> str:
    """A hint for a path with a mistake at ``at``."""
    rest = path[at:]
    if rest.startswith(".."):
        return f"name each step, as in '{path[:at]}.a{rest[1:]}'"
    if re.match(r"\[\s*-", rest):
        return f"count from the start: '{path[:at]}[0]'"
    if rest.startswith(".*"):
        return f"name the field, or take all elements of an array in JSON_QUERY: '{path[:at]}[*]'"
    if rest.startswith("[?"):
        return f"take all elements with JSON_QUERY and '{path[:at]}[*]'"
    return f"steps are .name, ['name'] and [n]: '{path[:at] or '$'}'"
