"""Places in files (spans), and the errors and warnings about them (diagnostics)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ds_dagster.documentation.address import condition_url

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a user's file. Lines and columns count from 1; the file is relative to the project where possible."""

    file: str
    line: int
    column: int = 1
    end_line: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def has_line(self, file: str, line: int) -> bool:
        """Whether it contains a line of a file, or a part of it."""
        return self.file == file and self.line <= line <= (self.end_line or self.line)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake or warning.

    Attributes:
        condition: stable name.
        message: short text, lower case, no full stop.
        hint: what to do.
        span: where, if anywhere.
        severity: an error stops the statement, a warning does not.
        fragment: the line of SQL it is about, shown with a caret.
        caused_by: name of the relation whose failure caused this one; empty for a root cause.
        detail: text of an outside system.
        related: further places (the other definition of a duplicate, the other end of a cycle).
    """

    condition: str
    message: str
    hint: str = ""
    span: Span | None = None
    severity: Severity = "error"
    fragment: str = ""
    caused_by: str = ""
    detail: str = ""
    related: tuple[Span, ...] = field(default=())

    def text(self) -> str:
        """What a person reads: place and message, fragment, detail, hint, address of the condition's page if any."""
        place = f"{self.span}: " if self.span else ""
        lines = [f"{place}{self.severity}: {self.message} [{self.condition}]"]
        if self.fragment and self.span:
            lines += [f"    {self.fragment}", "    " + " " * (self.span.column - 1) + "^"]
        lines += [f"  see also {other}" for other in self.related]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.url:
            lines.append(f"  see: {self.url}")
        return "\n".join(lines)

    @property
    def url(self) -> str:
        """Address of the condition's page; empty while the documentation is not published."""
        return condition_url(self.condition)

    def json(self) -> Mapping[str, object]:
        """The shape ``ds check --json`` prints."""
        return {
            "condition": self.condition,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
            "url": self.url or None,
            "file": self.span.file if self.span else None,
            "line": self.span.line if self.span else None,
            "column": self.span.column if self.span else None,
            "detail": self.detail,
            "caused_by": self.caused_by,
        }
