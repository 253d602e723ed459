"""``ds errors``: meaning and remedy of a condition, without a network and without a project."""

from __future__ import annotations

import textwrap
from dataclasses import asdict

import click

from ds_dagster.cli.output import emit_json, json_option, table
from ds_dagster.conditions import CONDITIONS
from ds_dagster.documentation.address import condition_url
from ds_dagster.documentation.conditions import Explained, explained
from ds_dagster.errors import error
from ds_dagster.names import NO_NAMES, nearest

WIDTH = 100


@click.command("errors")
@click.argument("name", required=False)
@json_option
def errors_command(name: str | None, as_json: bool) -> int:
    """Explain the condition NAME, the word in brackets after a message; without NAME list all conditions.

    NAME is read in any case, with or without its brackets.
    """
    if name is None:
        return _all(as_json)
    condition = name.strip("[]").upper()
    if condition not in CONDITIONS:
        raise error("CONDITION_UNKNOWN", name=name, nearest=", ".join(nearest(condition, CONDITIONS)) or NO_NAMES)
    explanation = explained(condition)
    if as_json:
        emit_json({**asdict(explanation), "url": condition_url(condition) or None})
        return 0
    for line in _lines(explanation):
        click.echo(line)
    return 0


def _all(as_json: bool) -> int:
    every = [explained(name) for name in sorted(CONDITIONS)]
    if as_json:
        emit_json([asdict(e) for e in every])
    else:
        table(["condition", "topic", "message"], [(e.name, e.topic, e.message) for e in every])
    return 0


def _lines(explanation: Explained) -> list[str]:
    lines = [
        explanation.name,
        *_wrapped(explanation.message),
        "",
        *_wrapped(f"{explanation.meaning}. Topic: {explanation.topic}."),
    ]
    lines += ["", "What to do:", *_wrapped(explanation.hint or "report it with the text of the message")]
    if explanation.example:
        lines += ["", "A statement that raises it:", *(f"    {line}" for line in explanation.example.split("\n"))]
    if url := condition_url(explanation.name):
        lines += ["", f"  {url}"]
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
