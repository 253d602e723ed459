"""One thing that is wrong with a text, before it becomes a diagnostic (in a list) or an exception (alone)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot.errors import ParseError

from ds_dagster.diagnostics import Diagnostic, Severity, Span
from ds_dagster.errors import DsError, error
from ds_dagster.sql.source import SourceText


@dataclass(frozen=True, slots=True)
class Mistake:
    """A condition with its parameters, at the characters from ``start`` to before ``end``."""

    source: SourceText
    start: int
    end: int
    condition: str
    params: Mapping[str, object] = field(default_factory=dict)
    related: tuple[Span, ...] = ()
    severity: Severity = "error"
    caused_by: str = ""

    @property
    def span(self) -> Span:
        """Where it is."""
        return self.source.span(self.start, self.end)

    def diagnostic(self) -> Diagnostic:
        """For a list, with the line of SQL it is about."""
        plain = self.exception().diagnostic()
        fragment = self.source.line_text(self.span.line)
        return replace(plain, fragment=fragment, related=self.related, severity=self.severity, caused_by=self.caused_by)

    def exception(self) -> DsError:
        """To raise."""
        return error(self.condition, span=self.span, detail="", **self.params)


class UnreadableError(ParseError):
    """The statement cannot be read on."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(mistake.condition)
        self.mistake = mistake
