"""Results of cases for people and machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ds_dagster.testing.case import CaseResult


def shown_path(path: Path, root: Path) -> str:
    """A path relative to the project's root, if it is below."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def failure_text(result: CaseResult) -> str:
    """The title of a case and its failures, each with its place."""
    lines = [result.title]
    for failure in result.failures:
        place = f"{failure.span.file}:{failure.span.line}: " if failure.span else ""
        lines.append(place + failure.text if not failure.text.startswith(place) else failure.text)
    return "\n".join(lines)


def json_report(results: Sequence[CaseResult], root: Path) -> dict[str, object]:
    """The shape ``ds test --json`` prints."""
    failed = [result for result in results if not result.ok]
    return {
        "ok": not failed,
        "passed": len(results) - len(failed),
        "failed": len(failed),
        "seconds": round(sum(result.seconds for result in results), 3),
        "cases": [_case(result, root) for result in results],
    }


def _case(result: CaseResult, root: Path) -> dict[str, object]:
    return {
        "file": shown_path(result.path, root),
        "title": result.title,
        "ok": result.ok,
        "seconds": round(result.seconds, 3),
        "failures": [
            {"relation": f.relation, "line": f.span.line if f.span else None, "text": f.text} for f in result.failures
        ],
        "written": [shown_path(path, root) for path in result.written],
    }
