"""Values of WITH properties: plain data that may hold ``${NAME}`` / ``${NAME:-default}`` references, resolved only where it connects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error

REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


@dataclass(frozen=True, slots=True, repr=False)
class PropertyValue:
    """One converted property.

    Attributes:
        value: text (references still in it), whole number or truth value.
        secret: hidden in every rendering; a literal (no reference) in a file is warned about.
        span: where it was written; None for values of the overlay, a profile or an inference.
        file: the value stands in this file (absolute path); read where it is resolved. Empty otherwise.
    """

    value: str | int | bool
    secret: bool = False
    span: Span | None = None
    file: str = ""

    @property
    def is_reference(self) -> bool:
        """Whether the value is only known where it is resolved."""
        return bool(self.file) or (isinstance(self.value, str) and REFERENCE.search(self.value) is not None)

    def shown(self) -> str:
        """Text that may be shown to anyone: references stay as written, a literal secret becomes ``********``."""
        if self.file:
            return f"(file {self.file})"
        return "********" if self.secret and not self.is_reference else str(self.value)

    def __repr__(self) -> str:
        return f"PropertyValue({self.shown()})"


def resolve(value: PropertyValue, environment: Mapping[str, str], used_by: str) -> str:
    """The plain text of a value.

    Raises:
        UserError: ENVIRONMENT_REFERENCE_MISSING.
    """
    if value.file:
        with open(value.file, encoding="utf-8") as handle:
            return handle.read().strip()
    if isinstance(value.value, bool):
        return "true" if value.value else "false"
    return resolve_text(str(value.value), environment, used_by)


def resolve_text(text: str, environment: Mapping[str, str], used_by: str) -> str:
    """Replace every reference in a text."""

    def replacement(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if name in environment:
            return environment[name]
        if default is not None:
            return default
        raise error("ENVIRONMENT_REFERENCE_MISSING", name=name, used_by=used_by)

    return REFERENCE.sub(replacement, text)
