"""Long results on a terminal."""

from __future__ import annotations

import shutil
import sys

import click


def show_text(text: str) -> None:
    """Print a result; with the program of ``PAGER`` (default ``less``) if it is longer than the terminal."""
    is_long = text.count("\n") >= shutil.get_terminal_size().lines
    if is_long and sys.stdout.isatty() and sys.stdin.isatty():
        click.echo_via_pager(text.removesuffix("\n"))
    else:
        click.echo(text, nl=False)
