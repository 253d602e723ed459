"""``ds test``: the project's SQL test cases."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ds_dagster.cli.output import LAYOUT, emit_json, json_option, note, project_option, settings_of, visible
from ds_dagster.errors import error

if TYPE_CHECKING:
    from ds_dagster.testing.case import CaseResult

_MOST = 4
"""Most cases at once by default: they share one Spark session, whose driver plans them all."""


@click.command("test")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("-k", "pattern", default="", help="Only cases whose path or title contains this text.")
@click.option("--update", is_flag=True, help="Rewrite golden files instead of comparing with them.")
@click.option(
    "-j", "--jobs", type=click.IntRange(1), help="Cases at once (default: the number of cores, at most four)."
)
@project_option
@json_option
def test_command(
    paths: tuple[Path, ...], pattern: str, update: bool, jobs: int | None, project: Path | None, as_json: bool
) -> int:
    """Run SQL test cases (*.case.yaml) on stores in memory. PATHS: files and folders, default the project's tests."""
    from ds_dagster.testing.report import json_report

    settings = settings_of(project, quiet=True)
    chosen = _chosen(paths or (_tests(settings.root),), pattern, settings.root)
    if not as_json:
        note(f"starting Spark for {len(chosen)} case{'' if len(chosen) == 1 else 's'}")
    began = time.monotonic()
    results = _run(chosen, settings.root, update=update, quiet=as_json, jobs=jobs or min(os.cpu_count() or 1, _MOST))
    failed = sum(not result.ok for result in results)
    if as_json:
        emit_json(json_report(results, settings.root))
    else:
        note(f"{len(results) - failed} passed, {failed} failed in {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


def _tests(root: Path) -> Path:
    return root / "tests" if (root / "tests").is_dir() else root


def _chosen(places: tuple[Path, ...], pattern: str, root: Path) -> list[Path]:
    """Case files, in order. ``pattern``: part of a path or title, in any case.

    Raises:
        UserError: CASE_NONE_FOUND, CASE_NONE_MATCHES.
    """
    from ds_dagster.testing.report import shown_path
    from ds_dagster.testing.runner import find_cases
    from ds_dagster.testing.yaml_entries import title_of

    cases, shown = find_cases(places), [shown_path(place.resolve(), root) for place in places]
    if not cases:
        raise error("CASE_NONE_FOUND", places=shown)
    wanted = pattern.lower()
    chosen = [path for path in cases if wanted in shown_path(path, root).lower() or wanted in title_of(path).lower()]
    if not chosen:
        raise error("CASE_NONE_MATCHES", pattern=pattern, places=shown, count=len(cases))
    return chosen


def _run(chosen: list[Path], root: Path, *, update: bool, quiet: bool, jobs: int) -> list[CaseResult]:
    """Run cases; returns results in the order of the cases."""
    from ds_dagster.testing.runner import run_case
    from ds_dagster.testing.session import end_session, shared_session

    results = []
    pool = ThreadPoolExecutor(min(jobs, len(chosen)), "case")
    try:
        for result in pool.map(lambda path: run_case(path, shared_session, root=root, update=update), chosen):
            results.append(result)
            if not quiet:
                _show(result, root)
    finally:
        pool.shutdown(cancel_futures=True)
        end_session()
    return results


def _show(result: CaseResult, root: Path) -> None:
    from ds_dagster.testing.report import failure_text, shown_path

    verdict = "ok  " if result.ok else "FAIL"
    click.echo(f"{verdict} {shown_path(result.path, root)}: {result.title} ({result.seconds:.2f} s)")
    for written in result.written:
        click.echo(f"     wrote {shown_path(written, root)}")
    if not result.ok:
        reason = visible(failure_text(result).partition("\n")[2], keep=LAYOUT)
        click.echo("     " + reason.replace("\n", "\n     "))
