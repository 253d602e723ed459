"""Times of statements, and questions that are repeated until Ctrl-C."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

import click

from ds_dagster.cli.output import clock, note


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Treat Ctrl-C as the normal end of the block."""
    try:
        yield
    except KeyboardInterrupt:
        return


@contextmanager
def timed(is_told: bool) -> Iterator[None]:
    """If ``is_told``, print how long the block took, as psql does."""
    started = time.perf_counter()
    yield
    if is_told:
        tell_time(time.perf_counter() - started)


def tell_time(seconds: float) -> None:
    """Print a time in milliseconds on stderr."""
    note(f"time: {seconds * 1000:,.1f} ms")


def watch(seconds: float, answer: Callable[[], str], remark: Callable[[], None]) -> None:
    """Show an answer, and a new one after each pause, until Ctrl-C.

    A terminal shows only the newest answer, cut to its height; elsewhere answers are printed one after the other.

    Args:
        seconds: pause between the end of an answer and the next question.
        answer: asks the question and returns the text to show.
        remark: prints notes below an answer.
    """
    with until_interrupted():
        while True:
            text = answer()
            heading = f"every {seconds:g} s, asked at {clock(datetime.now(timezone.utc).timestamp())} UTC"
            if sys.stdout.isatty():
                click.clear()
                click.echo(f"{heading}\n\n{fitting(text, shutil.get_terminal_size().lines - 5)}", nl=False)
            else:
                note(heading)
                click.echo(text, nl=False)
            remark()
            time.sleep(seconds)


def fitting(text: str, height: int) -> str:
    """A text cut to ``height`` lines, with the number of lines that were cut."""
    lines = text.splitlines()
    if len(lines) <= max(height, 1):
        return text
    shown = lines[: max(height - 1, 1)]
    return "\n".join([*shown, f"… {len(lines) - len(shown):,} more lines"]) + "\n"
