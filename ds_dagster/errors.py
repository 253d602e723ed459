"""Every exception of the package, and the fault record that decides retries.

::

    DsError                    a named condition with parameters and, where known, a span
    ├── UserError              the project, the SQL or the environment is at fault; never retried
    │   └── ProjectError       all mistakes of a project load together
    ├── NotYetError            legal in the dialect, not built yet; the hint says what works instead
    ├── UnsupportedError       refused for good; the hint says what works instead
    ├── ExternalError          a server, network or disk failed; retried with back-off
    └── InternalError          our bug; the text asks to report it

Which class a condition raises is in its :class:`ds_dagster.conditions.Condition` (``kind``); code raises with
:func:`error` and never picks the class by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ds_dagster.conditions import CONDITIONS, Condition, render
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.names import NO_NAMES

FaultDomain = Literal["user", "external", "internal"]
RetryHint = Literal["never", "soon", "wait", "back_off"]


class DsError(Exception):
    """A failure with a stable condition name.

    Attributes:
        condition: name in :data:`ds_dagster.conditions.CONDITIONS`.
        params: values of the message template; never a secret.
        span: where in the user's SQL, if known.
        detail: text of the outside system that failed (Spark, a driver), if any.
        envelope: put before the message in processes that can pass on only text, see :mod:`ds_dagster.envelope`; empty
            elsewhere.
    """

    envelope: str = ""

    def __init__(
        self,
        condition: str,
        params: Mapping[str, object] | None = None,
        *,
        span: Span | None = None,
        detail: str = "",
    ) -> None:
        self.condition = condition
        self.params: dict[str, object] = dict(params or {})
        self.span = span
        self.detail = detail
        super().__init__(str(self))

    @property
    def definition(self) -> Condition:
        """The condition's entry in the table."""
        return CONDITIONS[self.condition]

    @property
    def message(self) -> str:
        """Short text: lower case, no full stop."""
        return render(self.definition.message, self.params)

    @property
    def hint(self) -> str:
        """What to do, or an empty string. A part that would suggest names is left out when there are no names."""
        text = render(self.definition.hint, self.params)
        if self.params.get("nearest") != NO_NAMES:
            return text
        parts = (part.partition(f"{NO_NAMES}? ")[2] if NO_NAMES in part else part for part in text.split("; "))
        return "; ".join(part.removeprefix("otherwise ") for part in parts if part)

    @property
    def fault(self) -> Fault:
        """Domain and retry hint, from the condition's kind."""
        return FAULTS[self.definition.kind]

    def diagnostic(self) -> Diagnostic:
        """The error as a diagnostic, for lists and JSON."""
        return Diagnostic(
            condition=self.condition,
            message=self.message,
            hint=self.hint,
            span=self.span,
            detail=self.detail,
        )

    def __str__(self) -> str:
        text = self.diagnostic().text()
        return f"{self.envelope}\n{text}" if self.envelope else text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.condition, self.params, self.span, self.detail))


def _rebuild(kind: type[DsError], condition: str, params: dict[str, object], span: Span | None, detail: str) -> DsError:
    return kind(condition, params, span=span, detail=detail)


class UserError(DsError):
    """The project, its SQL or its environment is at fault."""


class NotYetError(DsError):
    """Legal in the dialect, not built yet."""


class UnsupportedError(DsError):
    """Refused for good."""


class ExternalError(DsError):
    """A server, the network or the disk failed; worth a retry."""


class InternalError(DsError):
    """Our bug."""


class ProjectError(UserError):
    """All mistakes of one project load, in file order, root causes first."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("PROJECT_INVALID", {"count": len(self.diagnostics)})

    def __str__(self) -> str:
        return "\n".join(d.text() for d in self.diagnostics)

    def __reduce__(self) -> tuple[object, ...]:
        return (ProjectError, (self.diagnostics,))


@dataclass(frozen=True, slots=True)
class Fault:
    """Who is at fault and whether a retry can help; read by ``runtime.decide`` alone.

    ``lasts``: the fault may last for any time and ends by itself, so repeated failures say nothing about the job.
    """

    domain: FaultDomain
    hint: RetryHint
    lasts: bool = False


FAULTS: dict[str, Fault] = {
    "user": Fault("user", "never"),
    "not_yet": Fault("user", "never"),
    "unsupported": Fault("user", "never"),
    "external": Fault("external", "back_off"),
    "unreachable": Fault("external", "back_off", lasts=True),
    "busy": Fault("external", "soon", lasts=True),
    "waiting": Fault("external", "wait", lasts=True),
    "internal": Fault("internal", "back_off"),
}
CLASSES: dict[str, type[DsError]] = {
    "user": UserError,
    "not_yet": NotYetError,
    "unsupported": UnsupportedError,
    "external": ExternalError,
    "unreachable": ExternalError,
    "busy": ExternalError,
    "waiting": ExternalError,
    "internal": InternalError,
}


def error(condition: str, /, *, span: Span | None = None, detail: str = "", **params: object) -> DsError:
    """Build the exception of a condition: ``raise error("UNKNOWN_COLUMN", span=span, name="x", ...)``.

    Raises:
        KeyError: the condition is not in the table (a bug a test catches).
    """
    return error_of(condition, params, span=span, detail=detail)


def error_of(condition: str, params: Mapping[str, object], *, span: Span | None = None, detail: str = "") -> DsError:
    """Like :func:`error`, with the parameters as a mapping, so that they may have any names (``span``, ``detail``)."""
    return CLASSES[CONDITIONS[condition].kind](condition, params, span=span, detail=detail)
