"""The instructions of a Dockerfile, as far as deploy/ uses them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT

KNOWN = frozenset({"ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD"})


@dataclass(frozen=True, slots=True)
class Instruction:
    """``stage`` is the name after AS, or the stage's number; empty before the first FROM."""

    name: str
    text: str
    stage: str

    @property
    def words(self) -> list[str]:
        return self.text.split()


def instructions(text: str) -> list[Instruction]:
    """In order; comments are left out and continued lines are one.

    Raises:
        ValueError: a line is not an instruction that Docker knows.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    parsed: list[Instruction] = []
    stage, stages = "", 0
    for line in joined.splitlines():
        name, _, rest = line.partition(" ")
        if name not in KNOWN or not rest.strip():
            raise ValueError(f"not an instruction: {line}")
        if name == "FROM":
            alias = re.search(r" AS (\w+)$", rest)
            stage, stages = (alias[1] if alias else str(stages)), stages + 1
        parsed.append(Instruction(name, rest.strip(), stage))
    return parsed


def ignored(path: str, rules: list[str]) -> bool:
    """Whether a path of the build context is kept from the builder: the last rule that matches it wins.

    Rules are names, ``**/NAME`` and ``*``, with ``!`` in front for exceptions.
    """
    out = False
    for rule in rules:
        pattern = rule.removeprefix("!")
        if pattern.startswith("**/"):
            matches = pattern[3:] in path.split("/")
        else:
            matches = pattern == "*" or path == pattern or path.startswith(f"{pattern}/")
        if matches:
            out = not rule.startswith("!")
    return out


def rules(file: Path = ROOT / "deploy" / "Dockerfile.dockerignore") -> list[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
