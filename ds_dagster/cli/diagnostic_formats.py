"""Diagnostics for tools that show them next to the code: GitHub's annotations, SARIF for code scanning.

Sources: GitHub's "Workflow commands for GitHub Actions" (``::error file=…``), OASIS SARIF 2.1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ds_dagster.conditions import CONDITIONS
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.version import __version__

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def github_lines(diagnostics: Iterable[Diagnostic]) -> Iterable[str]:
    """One workflow command per diagnostic; a runner turns it into an annotation of the line."""
    for diagnostic in diagnostics:
        text = "\n".join(part for part in (diagnostic.message, diagnostic.detail, diagnostic.hint) if part)
        places = {"file": "", "line": "", "col": ""}
        if diagnostic.span is not None:
            span = diagnostic.span
            places = {"file": span.file, "line": str(span.line), "col": str(span.column)}
        properties = {**places, "title": diagnostic.condition}
        written = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
        yield f"::{diagnostic.severity} {written}::{_data(text)}"


def sarif(diagnostics: Sequence[Diagnostic]) -> Mapping[str, object]:
    """A SARIF log with one run; rules are the conditions that occur in it."""
    names = sorted({diagnostic.condition for diagnostic in diagnostics})
    driver = {"name": "ds-dagster", "version": __version__, "rules": [_rule(name) for name in names]}
    results = [_result(diagnostic, names.index(diagnostic.condition)) for diagnostic in diagnostics]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def below(diagnostics: Iterable[Diagnostic], folder: Path) -> tuple[Diagnostic, ...]:
    """The diagnostics with paths from the repository's root. ``folder``: of the project, from that root."""
    prefix = folder.as_posix()
    if prefix == ".":
        return tuple(diagnostics)

    def moved(span: Span) -> Span:
        return span if Path(span.file).is_absolute() else replace(span, file=f"{prefix}/{span.file}")

    return tuple(d if d.span is None else replace(d, span=moved(d.span)) for d in diagnostics)


def _rule(name: str) -> Mapping[str, object]:
    condition = CONDITIONS.get(name)
    texts = {} if condition is None else {"shortDescription": {"text": condition.message}}
    return {"id": name, **texts}


def _result(diagnostic: Diagnostic, rule: int) -> Mapping[str, object]:
    text = f"{diagnostic.message} (hint: {diagnostic.hint})" if diagnostic.hint else diagnostic.message
    places = [] if diagnostic.span is None else [_location(diagnostic.span)]
    return {
        "ruleId": diagnostic.condition,
        "ruleIndex": rule,
        "level": diagnostic.severity,
        "message": {"text": text},
        "locations": places,
        "relatedLocations": [_location(span) for span in diagnostic.related],
    }


def _location(span: Span) -> Mapping[str, object]:
    region = {"startLine": span.line, "startColumn": span.column}
    if span.end_line is not None and span.end_column is not None:
        region |= {"endLine": span.end_line, "endColumn": span.end_column}
    return {"physicalLocation": {"artifactLocation": {"uri": span.file}, "region": region}}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
