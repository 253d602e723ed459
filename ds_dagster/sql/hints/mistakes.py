"""A mistake in a text, before it becomes a diagnostic (in a list) or an exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot.errors import ParseError

from ds_dagster.diagnostics import Diagnostic, Severity, Span
from ds_dagster.errors import DsError, error
from ds_dagster.sql.source import SourceText


@dataclass(frozen=True, slots=True)
class Mistake:
    """A condition with its parameters, at the offsets ``start`` to before ``end``. ``caused_by``: name of the
    application whose other mistake is the cause; empty otherwise."""

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
        """Lines and columns of the mistake."""
        return self.source.span(self.start, self.end)

    def diagnostic(self) -> Diagnostic:
        """The diagnostic for a list, with the line of SQL."""
        plain = self.exception().diagnostic()
        fragment = self.source.line_text(self.span.line)
        return replace(plain, fragment=fragment, related=self.related, severity=self.severity, caused_by=self.caused_by)

    def exception(self) -> DsError:
        """The exception to raise."""
        return error(self.condition, span=self.span, detail="", **self.params)


class UnreadableError(ParseError):
    """Parsing of the statement cannot continue."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(mistake.condition)
        self.mistake = mistake
