"""Mistakes and warnings of a project in the form of the protocol, by file."""

from __future__ import annotations

from collections.abc import Mapping

from lsprotocol import types
from pygls.workspace import PositionCodec

from ds_dagster.diagnostics import Diagnostic, Severity, Span
from ds_dagster.editor.places import location_of, range_of
from ds_dagster.editor.project import Snapshot

SOURCE = "ds"
SEVERITIES: Mapping[Severity, types.DiagnosticSeverity] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}


def findings_of(snapshot: Snapshot, codec: PositionCodec, otherwise: str) -> dict[str, list[types.Diagnostic]]:
    """File → its mistakes; an empty list for a file without any.

    Args:
        snapshot: the compiled project.
        codec: units of the editor.
        otherwise: file that shows mistakes without a place in an SQL file, such as those of the settings.
    """
    findings: dict[str, list[types.Diagnostic]] = {name: [] for name in snapshot.texts}
    for mistake in snapshot.diagnostics:
        has_place = mistake.span is not None and mistake.span.file in snapshot.texts
        span = mistake.span if has_place and mistake.span else Span(otherwise, 1)
        shown = _finding(snapshot, mistake, span, codec)
        findings.setdefault(span.file, []).append(shown)
    return findings


def _finding(snapshot: Snapshot, mistake: Diagnostic, span: Span, codec: PositionCodec) -> types.Diagnostic:
    hints = [f"hint: {mistake.hint}"] if mistake.hint else []
    details = [f"detail: {mistake.detail}"] if mistake.detail else []
    related = [
        types.DiagnosticRelatedInformation(location_of(snapshot, other, codec), "see also")
        for other in mistake.related
        if other.file in snapshot.texts
    ]
    return types.Diagnostic(
        range=range_of(span, snapshot.texts.get(span.file, ""), codec),
        message="\n".join([mistake.message, *details, *hints]),
        severity=SEVERITIES[mistake.severity],
        code=mistake.condition,
        code_description=types.CodeDescription(mistake.url) if mistake.url else None,
        source=SOURCE,
        related_information=related or None,
    )
