"""Entry point: the group of commands, loaded lazily, and the one boundary that turns exceptions into exit codes.

Exit codes: 0 done, 1 a fault of the project or a job, 2 wrong usage, 3 a bug of ds-dagster, 130 interrupted. Progress
goes to stderr, results to stdout.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ds_dagster.cli.output import fail
from ds_dagster.errors import DsError, InternalError, error
from ds_dagster.version import __version__

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
COMMANDS: Mapping[str, str] = {
    "check": "project",
    "fmt": "project",
    "lsp": "project",
    "explain": "project",
    "lineage": "project",
    "errors": "errors",
    "ls": "project",
    "init": "project",
    "plan": "plan",
    "apply": "plan",
    "ps": "jobs",
    "logs": "jobs",
    "metrics": "metrics",
    "size": "metrics",
    "stop": "jobs",
    "restart": "jobs",
    "reset": "jobs",
    "stage": "versions",
    "promote": "versions",
    "rollback": "versions",
    "abandon": "versions",
    "repair": "repair",
    "savepoint": "savepoint",
    "restore": "savepoint",
    "backfill": "backfill",
    "diff": "difference",
    "skip": "skip",
    "redrive": "redrive",
    "gc": "jobs",
    "engine": "engine",
    "print": "data",
    "query": "data",
    "preview": "preview",
    "record": "preview",
    "sql": "sql",
    "test": "test",
    "schemas": "schema",
    "up": "servers",
    "down": "servers",
    "doctor": "servers",
    "demo": "demo",
}
"""Command → module of ``cli/commands`` that defines it as ``<name>_command``."""

EXIT_PROJECT, EXIT_USAGE, EXIT_BUG = 1, 2, 3


class LazyGroup(click.Group):
    """Imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, click's signature
        """Names, in the order in which help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002, click's signature
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"ds_dagster.cli.commands.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command; the error for an unknown name suggests the nearest names."""
        if args and args[0] not in COMMANDS:
            from ds_dagster.names import nearest

            close = nearest(args[0], COMMANDS)
            hint = f" Did you mean {', '.join(close)}?" if close else " See `ds --help`."
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. If the reader of its output ends first (``ds ls | head``), that is not a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed at the exit
            return 0


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="ds-dagster")
@click.option(
    "--project",
    type=click.Path(file_okay=False, path_type=Path),
    help="Project folder, here or after the command (default: this folder, or the nearest parent with settings).",
)
def cli(project: Path | None) -> None:
    """Streaming SQL as Dagster assets, on Spark."""


def main() -> None:
    """Console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code and raises nothing."""
    try:
        outcome = cli.main(args=arguments, prog_name="ds", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as problem:
        problem.show()
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except InternalError as problem:
        fail(problem, as_json="--json" in arguments)
        return EXIT_BUG
    except DsError as problem:
        fail(problem, as_json="--json" in arguments)
        return EXIT_PROJECT
    except Exception as problem:  # noqa: BLE001, the boundary: an exception that is not a condition is our bug
        if isinstance(problem, OSError) and problem.errno in NO_SPACE:
            fail(error("OUTPUT_WITHOUT_SPACE", what=problem.filename or "the output"), as_json=False)
            return EXIT_PROJECT
        traceback.print_exc()
        click.echo("this is a bug of ds-dagster: please report it with the text above", err=True)
        return EXIT_BUG
    return outcome if isinstance(outcome, int) else 0
