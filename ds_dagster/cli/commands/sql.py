"""``ds sql``: executes statements from the command line, a script or an interactive shell."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ds_dagster.cli.output import json_option, project_option, settings_of
from ds_dagster.cli.shell.output import SqlOutput
from ds_dagster.cli.shell.psql import as_statement
from ds_dagster.cli.shell.session import Session
from ds_dagster.errors import DsError, InternalError, error
from ds_dagster.sql.command_script import parse_commands

EXIT_PROJECT, EXIT_BUG = 1, 3
STANDARD_INPUT = "-"


@click.command("sql")
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True), metavar="[FILE]")
@click.option(
    "-c", "--command", "commands", multiple=True, metavar="STATEMENT", help="Execute this statement; may be repeated."
)
@click.option("--timing", is_flag=True, help="Print the time of each statement.")
@project_option
@json_option
def sql_command(file: Path | None, commands: tuple[str, ...], timing: bool, project: Path | None, as_json: bool) -> int:
    """Execute statements: LIST, DESCRIBE, PRINT, SELECT, entity statements, TERMINATE and RESTART QUERY, USE.

    Statements come from -c or from FILE (- is standard input). Without both, an interactive shell opens on a terminal;
    elsewhere standard input is read. A script ends at its first mistake. Statements that define something belong in the
    project's SQL files; DESCRIBE CREATE … shows the relation that a statement would create. --json prints one object
    per line. On a terminal, a result that is longer than the screen is shown by the program of PAGER.
    """
    if file is not None and commands:
        raise click.UsageError("give either -c or FILE")
    session = Session(settings_of(project, quiet=as_json), SqlOutput(as_json), is_timed=timing)
    texts = [("<command>", as_statement(text)) for text in commands]
    if file is not None and str(file) != STANDARD_INPUT:
        texts = [(str(file), _read(file))]
    elif not commands and (file is not None or not sys.stdin.isatty()):
        texts = [("<stdin>", sys.stdin.read())]
    if texts:
        return run_texts(session, texts)
    from ds_dagster.cli.shell.shell import run_shell

    return run_shell(session)


def run_texts(session: Session, texts: Sequence[tuple[str, str]]) -> int:
    """Execute pairs (name, text) one after the other; returns 0, or the exit code of the first mistake, which ends
    it."""
    for name, text in texts:
        code = run_text(session, name, text)
        if code:
            return code
    return 0


def run_text(session: Session, name: str, text: str) -> int:
    """Execute the statements of a text; the first failure is shown and ends it. Returns the exit code."""
    from ds_dagster.cli.results.watching import timed
    from ds_dagster.questions.binding import with_fragment

    statements = parse_commands(name, text)
    while True:
        try:
            statement = next(statements, None)
        except DsError as problem:
            session.output.failure(with_fragment(problem, text))
            return EXIT_PROJECT
        if statement is None:
            return 0
        try:
            with timed(session.is_timed):
                session.execute(statement, text)
        except DsError as problem:
            session.output.failure(problem)
            return EXIT_BUG if isinstance(problem, InternalError) else EXIT_PROJECT


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise error("SQL_FILE_UNREADABLE", file=str(file), reason=reason) from problem
