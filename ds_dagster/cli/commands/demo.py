"""``ds demo``: the example project end to end; ``--check`` proves its results and ends."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ds_dagster.cli.output import emit_json, json_option, note, table

if TYPE_CHECKING:
    from ds_dagster.demo.observed import Compared

DEFAULT_FOLDER = "ds-demo"


@click.command("demo")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--check", is_flag=True, help="Compare the results with a model, print a table, stop everything, exit 0 or 1."
)
@click.option("--clicks", type=click.IntRange(min=100), default=5000, show_default=True, help="Clicks to feed.")
@click.option(
    "--port", type=click.IntRange(min=1, max=65535), help="Port of Dagster's UI (default: a free one from 3000)."
)
@json_option
def demo_command(folder: Path | None, check: bool, clicks: int, port: int | None, as_json: bool) -> int:
    """Run the example pipelines on real local servers, under dagster dev; Ctrl-C stops everything.

    Runs in FOLDER; by default in the example project around the current folder, else in ./ds-demo, where the example is
    copied to. --check runs in a folder of its own, which it removes when everything is right.
    """
    from ds_dagster.demo.example import copy_example, example_source, find_example

    example = find_example((folder or Path.cwd()).resolve())
    if check:
        return _check(example or example_source(), clicks, port, as_json)
    root = example or copy_example(example_source(), (folder or Path(DEFAULT_FOLDER)).resolve())
    note(f"the example project is in {root}")
    return _run(root, clicks, port)


def _run(root: Path, clicks: int, port: int | None) -> int:
    from ds_dagster.demo.show import Show

    is_live = sys.stderr.isatty()
    try:
        Show(root, clicks, _Live() if is_live else note, port).run(is_live)
    except KeyboardInterrupt:
        note("stopped")
    return 0


def _check(source: Path, clicks: int, port: int | None, as_json: bool) -> int:
    from ds_dagster.demo.example import copy_example
    from ds_dagster.demo.show import Show

    root = copy_example(source, Path(tempfile.mkdtemp(prefix="ds-demo-")))
    note(f"checking the example in {root}")
    is_right = False
    try:
        results = Show(root, clicks, note, port).check()
        is_right = all(compared.ok for compared in results)
        _report(results, as_json)
    finally:
        if is_right:
            shutil.rmtree(root, ignore_errors=True)
        else:
            note(f"logs and state are kept in {root}/.ds")
    return 0 if is_right else 1


def _report(results: list[Compared], as_json: bool) -> None:
    if as_json:
        emit_json({"ok": all(c.ok for c in results), "relations": [asdict(c) | {"ok": c.ok} for c in results]})
        return
    rows = [("ok" if c.ok else "WRONG", c.relation, c.wanted, c.found, c.missing, c.extra) for c in results]
    table(["", "relation", "expected", "found", "missing", "extra"], rows, right=(2, 3, 4, 5))
    for compared in results:
        for example in compared.examples:
            note(f"{compared.relation}: {example}")


class _Live:
    """Prints notes on a terminal; notes that begin with ``live:`` replace each other on one line."""

    def __init__(self) -> None:
        self._is_open = False

    def __call__(self, text: str) -> None:
        if text.startswith("live:"):
            click.echo(f"\r\x1b[Kds: {text}", err=True, nl=False)
            self._is_open = True
            return
        if self._is_open:
            click.echo("", err=True)
            self._is_open = False
        note(text)
