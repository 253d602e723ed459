"""Patterns of rows: the parsed tree, and the automaton that searches for it.

The steps of a state are in the order in which the standard (SQL:2016, 9.7) prefers them: of two matches that begin at
one row, the match whose first different step is further left counts. So the earlier choice of ``a | b``, one more
repetition of a greedy quantifier and one repetition less of a reluctant quantifier come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ACCEPT = ""
"""Variable of the step that ends a match."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One row."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the parts, the first that leads to a match."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part ``least`` to ``most`` times (None: any number); ``reluctant``: as few times as possible."""

    part: Pattern
    least: int
    most: int | None
    reluctant: bool = False


Pattern = Variable | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Step:
    """A step from a state, with a row of ``variable``, to state ``to``; :data:`ACCEPT` takes no row."""

    variable: str
    to: int = 0


@dataclass(frozen=True, slots=True)
class Automaton:
    """States by number, each with its steps in the order of preference; the search begins in state 0."""

    states: tuple[tuple[Step, ...], ...]

    def can_be_empty(self) -> bool:
        """Whether a match may have no rows."""
        return any(step.variable == ACCEPT for step in self.states[0])

    def needs_row_behind(self) -> bool:
        """Whether a match may be complete although a longer one is preferred, so that the next row decides."""
        return any(step.variable == ACCEPT for state in self.states for step in state[1:])

    def can_miss(self, variable: str, start: int = 0) -> bool:
        """Whether a match may have no row of that variable from a state on."""
        visited, pending = {start}, [start]
        while pending:
            for step in self.states[pending.pop()]:
                if step.variable == ACCEPT:
                    return True
                if step.variable != variable and step.to not in visited:
                    visited.add(step.to)
                    pending.append(step.to)
        return False

    def can_begin_with(self, variable: str) -> bool:
        """Whether the first row of a match may be the variable's first."""
        return any(step.variable == variable for step in self.states[0])

    def can_begin_with_last(self, variable: str) -> bool:
        """Whether the first row of a match may be the variable's last."""
        return any(self.can_miss(variable, step.to) for step in self.states[0] if step.variable == variable)


def variables(pattern: Pattern) -> tuple[str, ...]:
    """Its variables in reading order, each once."""
    return tuple(dict.fromkeys(_names(pattern)))


def _names(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, Variable):
        yield pattern.name
    elif isinstance(pattern, Repeat):
        yield from _names(pattern.part)
    else:
        for part in pattern.parts:
            yield from _names(part)


def size(pattern: Pattern) -> int:
    """Approximate number of states of its automaton."""
    if isinstance(pattern, Variable):
        return 1
    if isinstance(pattern, Repeat):
        return size(pattern.part) * max(pattern.least + (pattern.most is None), pattern.most or 0, 1)
    return sum(size(part) for part in pattern.parts)


def is_unbounded(pattern: Pattern) -> bool:
    """Whether a match may have any number of rows."""
    if isinstance(pattern, Variable):
        return False
    if isinstance(pattern, Repeat):
        return pattern.most is None or is_unbounded(pattern.part)
    return any(is_unbounded(part) for part in pattern.parts)


def pattern_text(pattern: Pattern, name: dict[str, str] | None = None) -> str:
    """The pattern as it would be written; ``name``: other names of variables."""
    if isinstance(pattern, Variable):
        return name[pattern.name] if name else pattern.name
    if isinstance(pattern, Repeat):
        inner = pattern_text(pattern.part, name)
        inner = inner if isinstance(pattern.part, Variable) else f"({inner})"
        return inner + _quantifier(pattern) + ("?" if pattern.reluctant else "")
    if isinstance(pattern, Choice):
        return " | ".join(pattern_text(part, name) for part in pattern.parts)
    texts = ((part, pattern_text(part, name)) for part in pattern.parts)
    return " ".join(f"({text})" if isinstance(part, Choice) else text for part, text in texts)


def _quantifier(pattern: Repeat) -> str:
    least, most = pattern.least, pattern.most
    sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if sign:
        return sign
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"


class _Builder:
    """Builds nodes from the end, so that the node after a part exists already (``behind``). A node takes a row of a
    variable and has one way on, or is a fork that takes no row; node 0 is the end and has no way on."""

    def __init__(self) -> None:
        self.variables: list[str] = [ACCEPT]
        self.ways: list[tuple[int, ...]] = [()]

    def add(self, variable: str, *ways: int) -> int:
        self.variables.append(variable)
        self.ways.append(ways)
        return len(self.ways) - 1

    def build(self, pattern: Pattern, behind: int) -> int:
        """The node at which a part begins."""
        if isinstance(pattern, Variable):
            return self.add(pattern.name, behind)
        if isinstance(pattern, Choice):
            return self.add(ACCEPT, *[self.build(part, behind) for part in pattern.parts])
        if isinstance(pattern, Repeat):
            return self._repeat(pattern, behind)
        for part in reversed(pattern.parts):
            behind = self.build(part, behind)
        return behind

    def _repeat(self, pattern: Repeat, behind: int) -> int:
        entry = behind
        if pattern.most is None:
            entry = self.add(ACCEPT)
            self._fork(entry, self.build(pattern.part, entry), behind, pattern.reluctant)
        else:
            for _ in range(pattern.most - pattern.least):
                fork = self.add(ACCEPT)
                self._fork(fork, self.build(pattern.part, entry), behind, pattern.reluctant)
                entry = fork
        for _ in range(pattern.least):
            entry = self.build(pattern.part, entry)
        return entry

    def _fork(self, node: int, more: int, behind: int, reluctant: bool) -> None:
        self.ways[node] = (behind, more) if reluctant else (more, behind)

    def reachable(self, entry: int) -> list[int]:
        """Nodes that take a row, and the end, that are reached without taking a row, by preference; each once."""
        states: list[int] = []
        visited: set[int] = set()
        pending = [entry]
        while pending:
            number = pending.pop()
            if number in visited:
                continue
            visited.add(number)
            if self.variables[number] != ACCEPT or not self.ways[number]:
                states.append(number)
            else:
                pending.extend(reversed(self.ways[number]))
        return states


def automaton(pattern: Pattern) -> Automaton:
    """The automaton of a pattern. Check :func:`size` before: the automaton has about that many states."""
    builder = _Builder()
    entry = builder.build(pattern, 0)
    numbers = {entry: 0}
    pending, states = [entry], []
    while pending:
        steps = []
        for number in builder.reachable(pending.pop(0)):
            variable = builder.variables[number]
            if variable == ACCEPT:
                steps.append(Step(ACCEPT))
                continue
            (to,) = builder.ways[number]
            if to not in numbers:
                numbers[to] = len(numbers)
                pending.append(to)
            steps.append(Step(variable, numbers[to]))
        states.append(tuple(steps))
    return Automaton(tuple(states))
