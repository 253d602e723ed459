"""Tables on a terminal and in a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping

import pytest

PROGRAM = """
from ds_dagster.cli.output import table
table(["query", "state", "rows"], [("a", "RUNNING", 5), ("failed", "FAILED", None)], right=(2,))
"""
PLAIN = ["QUERY   STATE    ROWS", "a       RUNNING     5", "failed  FAILED      -"]
GREEN, RED, RESET = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def on_terminal(environment: Mapping[str, str]) -> list[str]:
    """Lines the program prints to a terminal of its own."""
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", closefd=True) as screen:
        subprocess.run([sys.executable, "-c", PROGRAM], stdout=follower, env={**os.environ, **environment}, check=True)
        os.close(follower)
        return os.read(screen.fileno(), 10_000).decode().replace("\r\n", "\n").splitlines()


def test_states_are_coloured_on_a_terminal() -> None:
    head, running, failed = on_terminal({"NO_COLOR": ""})
    assert head == PLAIN[0]
    assert running == f"a       {GREEN}RUNNING{RESET}     5"
    assert failed == f"failed  {RED}FAILED {RESET}     -"


@pytest.mark.parametrize("value", ["1", "false"])
def test_no_color_is_honoured(value: str) -> None:
    assert on_terminal({"NO_COLOR": value}) == PLAIN


def test_a_pipe_gets_plain_text() -> None:
    printed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == PLAIN
