"""Variables and arguments are named for the thing they hold, not for what the author did to get it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.trees import Module, code_of, modules

VERBS = frozenset(("asked", "found", "given", "kept", "known", "made", "one", "seen", "told"))
"""Participles and pronouns. A field of a record may have such a name: its class is the noun."""


def names_bound(module: Module) -> Iterator[tuple[int, str]]:
    """Line and name of arguments, captured patterns, exceptions and all else that is assigned, but for fields."""
    fields = {id(node.target) for class_ in module.classes() for node in class_.body if isinstance(node, ast.AnnAssign)}
    for node in module.nodes():
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.lineno, node.id
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.lineno, node.name


def test_names_say_the_thing() -> None:
    wrong = [
        f"{module.path}:{line}: {name}" for module in modules() for line, name in names_bound(module) if name in VERBS
    ]
    assert not wrong, "\n".join(wrong)


def test_a_name_for_the_verb_is_reported() -> None:
    source = """
class Row:
    asked: int

    def told(self, given, told): ...

def f(items):
    found = [one for one in items]
    match found:
        case [*seen]: ...
    with items as kept: ...
    return lambda known: (made := known)
"""
    names = {name for _, name in names_bound(code_of(source))}
    assert names & VERBS == VERBS - {"asked"}
