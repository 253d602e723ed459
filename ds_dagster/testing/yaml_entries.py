"""YAML text → values with their lines. Types are JSON's, and bytes as ``!!binary``: no dates, ``yes`` is text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean

_NUMBER = re.compile(r"^-?(?:0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$")
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""libyaml's loader if PyYAML was built with it: it needs a tenth of the time."""
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a YAML file: a mapping or list of entries, or a scalar, and where it is."""

    value: Any
    span: Span
    place: str

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, Mapping):
            return {key: entry.plain() for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [entry.plain() for entry in self.value]
        return self.value

    def mapping(self, allowed: Sequence[str], needed: Sequence[str] = ()) -> Mapping[str, Entry]:
        """Its entries by key; refuses keys that are not ``allowed``, and missing ``needed`` keys.

        Raises:
            UserError: CASE_VALUE_INVALID, CASE_KEY_UNKNOWN, CASE_KEY_MISSING.
        """
        if not isinstance(self.value, Mapping):
            raise self.invalid("a mapping with " + ", ".join(allowed))
        for key, entry in self.value.items():
            if key not in allowed:
                nearest = did_you_mean(key, allowed)
                raise error("CASE_KEY_UNKNOWN", span=entry.span, place=self.place, key=key, nearest=nearest)
        for key in needed:
            if key not in self.value:
                raise error("CASE_KEY_MISSING", span=self.span, place=self.place, key=key, example="…")
        return self.value

    def items(self) -> list[Entry]:
        """Its elements.

        Raises:
            UserError: CASE_VALUE_INVALID.
        """
        if not isinstance(self.value, list):
            raise self.invalid("a list")
        return self.value

    def text(self) -> str:
        """A text that is not empty; else CASE_VALUE_INVALID."""
        if not isinstance(self.value, str) or not self.value:
            raise self.invalid("a text")
        return self.value

    def whole(self, least: int | None = None) -> int:
        """A whole number of at least ``least``; else CASE_VALUE_INVALID."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.invalid("a whole number")
        if least is not None and self.value < least:
            raise self.invalid(f"a whole number ≥ {least}")
        return self.value

    def truth(self) -> bool:
        """``true`` or ``false``; else CASE_VALUE_INVALID."""
        if not isinstance(self.value, bool):
            raise self.invalid("true, false")
        return self.value

    def choice(self, *allowed: str) -> str:
        """One of these words; else CASE_VALUE_INVALID."""
        if self.value not in allowed:
            raise self.invalid(", ".join(allowed))
        return str(self.value)

    def invalid(self, allowed: str) -> Exception:
        """CASE_VALUE_INVALID for this value."""
        value = (
            "a mapping" if isinstance(self.value, Mapping) else "a list" if isinstance(self.value, list) else self.value
        )
        return error("CASE_VALUE_INVALID", span=self.span, place=self.place, value=value, allowed=allowed)


def read_yaml(path: Path, shown: str) -> Entry:
    """The one document of a file.

    Args:
        path: of the file.
        shown: its name in spans.

    Raises:
        UserError: CASE_UNREADABLE, CASE_KEY_TWICE, CASE_VALUE_INVALID.
    """
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, UnicodeDecodeError) as problem:
        raise error("CASE_UNREADABLE", span=Span(shown, 1), file=shown, reason=str(problem)) from problem
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        raise error(
            "CASE_UNREADABLE", span=Span(shown, line), file=shown, reason=problem.problem or "it is not valid YAML"
        ) from problem
    if root is None:
        raise error("CASE_UNREADABLE", span=Span(shown, 1), file=shown, reason="it is empty")
    return _entry(root, shown, "the case")


def _entry(node: yaml.Node, file: str, place: str) -> Entry:
    span = Span(file, node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.MappingNode):
        entries: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in entries:
                raise error("CASE_KEY_TWICE", span=Span(file, key_node.start_mark.line + 1), key=key)
            entries[key] = _entry(value_node, file, key)
        return Entry(entries, span, place)
    if isinstance(node, yaml.SequenceNode):
        return Entry([_entry(item, file, place) for item in node.value], span, place)
    return Entry(_scalar(node, span, place), span, place)


def _scalar(node: yaml.Node, span: Span, place: str) -> Any:
    text = str(node.value)
    if node.tag == "tag:yaml.org,2002:binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except binascii.Error as problem:
            raise error("CASE_VALUE_INVALID", span=span, place=place, value=text, allowed="base64") from problem
    if isinstance(node, yaml.ScalarNode) and node.style:  # quoted; a plain scalar has None, or "" from libyaml
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.match(text):
        return int(text)
    return float(text) if _FLOAT.match(text) else text


def title_of(path: Path) -> str:
    """The title of a case, empty without one; mistakes in the file are reported when the case runs."""
    try:
        document = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError:
        return ""
    return str(document.get("title", "")) if isinstance(document, dict) else ""
