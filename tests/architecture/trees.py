"""The package as syntax trees: what each module imports, when, and what it defines. Nothing is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ds_dagster"
When = Literal["load", "call", "typing"]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module. ``when``: at load, inside a function, or for type checkers only."""

    target: str
    when: When
    line: int

    @property
    def top(self) -> str:
        return self.target.split(".")[0]

    @property
    def is_ours(self) -> bool:
        return self.top == "ds_dagster"

    @property
    def is_standard(self) -> bool:
        return self.top in sys.stdlib_module_names


@dataclass(frozen=True, slots=True)
class Module:
    """A module by its place below the package (``sql/parser.py``) and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        parts = ["ds_dagster", *self.path.removesuffix(".py").split("/")]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def area(self) -> str:
        """Top folder below the package, or the file's own name at the top."""
        return self.path.split("/")[0].removesuffix(".py")

    def imports(self) -> tuple[Import, ...]:
        return imports_of(self.tree)

    def nodes(self) -> tuple[ast.AST, ...]:
        return nodes_of(self.tree)

    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes() if isinstance(node, Function))

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.nodes() if isinstance(node, ast.ClassDef))


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a file or of a part of it. A dozen rules look at them, and to walk over the package takes half a
    second."""
    return tuple(ast.walk(tree))


@cache
def imports_of(tree: ast.Module) -> tuple[Import, ...]:
    """What a file imports, in its order."""
    return tuple(_imports(tree.body, "load"))


@lru_cache(maxsize=1)
def modules() -> tuple[Module, ...]:
    """Every Python file of the package; what a wheel adds beside it (example, Java) is not there in a checkout."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(path.relative_to(PACKAGE).as_posix(), text, ast.parse(text)))
    return tuple(found)


def module(path: str) -> Module:
    return next(found for found in modules() if found.path == path)


def code_of(source: str) -> Module:
    """A module that exists nowhere, for tests of the rules themselves."""
    return Module("made/up.py", source, ast.parse(source))


def _imports(body: list[ast.stmt] | list[ast.AST], when: When) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, when, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (Import(target, when, node.lineno) for target in _targets(node))
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _imports(node.body, "typing")
            yield from _imports(node.orelse, when)
        elif isinstance(node, Function | ast.Lambda):
            yield from _imports(list(ast.iter_child_nodes(node)), "call" if when == "load" else when)
        else:
            yield from _imports(list(ast.iter_child_nodes(node)), when)


def _targets(node: ast.ImportFrom) -> Iterator[str]:
    """``from a import b`` means a.b where that is a module of ours, else a."""
    assert node.module is not None and node.level == 0, "relative imports are refused by ruff"
    for alias in node.names:
        inner = f"{node.module}.{alias.name}"
        yield inner if is_module(inner) else node.module


@lru_cache(maxsize=4096)
def is_module(name: str) -> bool:
    """Whether a dotted name is a module or package of ours."""
    parts = name.split(".")
    place = ROOT.joinpath(*parts)
    return parts[0] == "ds_dagster" and (place.with_suffix(".py").is_file() or (place / "__init__.py").is_file())


def _is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def docstring_of(node: ast.AST) -> ast.Constant | None:
    """The node of a docstring, if there is one."""
    body = getattr(node, "body", None)
    if not isinstance(body, list) or not body or not isinstance(body[0], ast.Expr):
        return None
    value = body[0].value
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """String constants that are no docstrings (of modules, classes, functions, or below an assignment)."""
    documentation = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr)}
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node


def lines_of(node: Function) -> int:
    """Lines of a function, its docstring and decorators left out."""
    doc = docstring_of(node)
    documented = (doc.end_lineno or doc.lineno) - doc.lineno + 1 if doc is not None else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - documented


def name_of(node: ast.expr) -> str:
    """``a.b.c`` of a name, an attribute or a call; empty for anything else."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        owner = name_of(node.value)
        return f"{owner}.{node.attr}" if owner else node.attr
    return node.id if isinstance(node, ast.Name) else ""
