"""Functions of the user: a Java class in a jar of the project, or a Python function of one of its modules.

``CREATE FUNCTION_SOURCE name WITH ('file' = 'lib/x.jar')`` and ``CREATE FUNCTION f(a BIGINT) RETURNS VARCHAR LANGUAGE
JAVA WITH ('source.name' = name, 'class.name' = 'com.acme.F')`` as in the dialect; ``LANGUAGE PYTHON WITH ('module' =
'functions.text')`` is ours. Files are read, not run, when the project is compiled; their hash is part of the meaning of
every query that calls the function.
"""

from __future__ import annotations

import ast
import hashlib
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ds_dagster.catalog.properties.spec import PropertyIndex
from ds_dagster.catalog.properties.values import PropertyValue, path_in
from ds_dagster.catalog.records import Findings
from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.python_code import PythonCode
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import CreateFunction, CreateFunctionSource, Origin

Language = Literal["java", "python"]
_STATEMENT = re.compile(r"create\s+function", re.IGNORECASE)
_FILE = re.compile(
    r"""(["'])(?P<what>file|module)\1\s*=\s*(["'])@?(?P<path>[^"']*)\3""",
    re.IGNORECASE,
)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
MOST_ARGUMENTS = 64


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """CREATE FUNCTION_SOURCE after its jar was read.

    Attributes:
        name: folded.
        file: absolute path of the jar.
        classes: full names of its classes.
        digest: of its bytes.
        origin: its statement.
    """

    name: str
    file: str
    classes: tuple[str, ...]
    digest: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class UserFunction:
    """One function, called by name and types of its arguments.

    Attributes:
        name: folded.
        arguments: names and types.
        returns: type of the result, which may be NULL.
        language: java or python.
        file: absolute path of the jar or the module.
        entry: class, or function in the module.
        digest: of the file; of a module its text.
        vectorized: a Python function takes and returns Arrow arrays, one element per row.
        source: folded name of its CREATE FUNCTION_SOURCE, empty for Python.
        root: folder of the project, from where a module imports others.
        origin: its statement.
    """

    name: str
    arguments: tuple[tuple[str, DataType], ...]
    returns: DataType
    language: Language
    file: str
    entry: str
    digest: str
    vectorized: bool
    source: str
    root: str
    origin: Origin

    @property
    def types(self) -> tuple[DataType, ...]:
        """Types of the arguments, in order."""
        return tuple(type_ for _, type_ in self.arguments)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(type_) for type_ in self.types)})"

    def code(self) -> PythonCode:
        """The function with the current text of its module; for Python functions only."""
        text = Path(self.file).read_text(encoding="utf-8")
        return PythonCode(str(self), self.root, self.file, text, self.entry)

    @property
    def meaning(self) -> str:
        """Text that changes when the function may compute something else."""
        kind = "vectorized" if self.vectorized else "rows"
        return f"{self}:{self.returns}:{self.language}:{self.entry}:{kind}:{self.digest}"


Functions = Mapping[str, tuple[UserFunction, ...]]
"""Functions by folded name; several under one name differ in the types of their arguments."""


@dataclass(frozen=True, slots=True)
class UserCode:
    """User-defined functions of a project: functions, their sources, and the names of refused ones."""

    functions: Functions
    sources: Mapping[str, FunctionSource]
    refused: frozenset[str] = frozenset()


NO_CODE = UserCode(MappingProxyType({}), MappingProxyType({}))


def declare_functions(
    sources: Iterable[CreateFunctionSource],
    functions: Iterable[CreateFunction],
    settings: Settings,
    index: PropertyIndex,
) -> tuple[UserCode, Sequence[Diagnostic]]:
    """All functions of a project.

    Args:
        sources, functions: statements in the order of files.
        settings: of the project.
        index: of properties.
    """
    findings = Findings()
    return _Declaring(settings, index, findings).run(sources, functions), findings.diagnostics


class _Declaring:
    def __init__(self, settings: Settings, index: PropertyIndex, findings: Findings) -> None:
        self.settings = settings
        self.index = index
        self.findings = findings
        self.sources: dict[str, FunctionSource | None] = {}

    def run(self, sources: Iterable[CreateFunctionSource], functions: Iterable[CreateFunction]) -> UserCode:
        for written in sources:
            self._source(written)
        overloads: dict[str, tuple[UserFunction, ...]] = {}
        refused: set[str] = set()
        for statement in functions:
            name = str(statement.name)
            function = self._collected(statement, overloads.get(name, ()))
            if function is None:
                refused.add(name)
            elif function.origin is statement.origin:
                overloads[name] = (*overloads.get(name, ()), function)
        return UserCode(
            MappingProxyType(overloads),
            MappingProxyType({name: source for name, source in self.sources.items() if source}),
            frozenset(refused),
        )

    def _source(self, statement: CreateFunctionSource) -> None:
        name, span = str(statement.name), statement.name.span
        if name in self.sources:
            if not statement.if_not_exists:
                self.findings.add(error("DUPLICATE_FUNCTION_SOURCE", span=span, name=name))
            return
        pulled = self.index.pull(statement.properties, "function_source")
        self.findings.extend(pulled.diagnostics)
        self.sources[name] = self.findings.collect(lambda: self._jar(statement, pulled.values))

    def _jar(self, statement: CreateFunctionSource, values: Mapping[str, PropertyValue]) -> FunctionSource:
        name, written = str(statement.name), values.get("file")
        if written is None:
            raise error("FUNCTION_PROPERTY_MISSING", span=statement.name.span, name=name, needed="'file' = 'lib/x.jar'")
        path = path_in(self.settings.root, written)
        try:
            with zipfile.ZipFile(path) as jar:
                entries = [entry for entry in jar.namelist() if entry.endswith(".class")]
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, zipfile.BadZipFile) as problem:
            reason = problem.strerror or "" if isinstance(problem, OSError) else "it is not a valid jar"
            raise error("FUNCTION_FILE_INVALID", span=written.span, file=written.value, reason=reason) from problem
        classes = tuple(sorted(entry.removesuffix(".class").replace("/", ".") for entry in entries))
        return FunctionSource(name, str(path), classes, digest, statement.origin)

    def _collected(self, statement: CreateFunction, overloads: Sequence[UserFunction]) -> UserFunction | None:
        pulled = self.index.pull(statement.properties, "function")
        self.findings.extend(pulled.diagnostics)
        if any(diagnostic.severity == "error" for diagnostic in pulled.diagnostics):
            return None
        return self.findings.collect(lambda: self._function(statement, pulled.values, overloads))

    def _function(
        self, statement: CreateFunction, values: Mapping[str, PropertyValue], overloads: Sequence[UserFunction]
    ) -> UserFunction:
        """The declared function, or the existing one of the same name and types with IF NOT EXISTS."""
        span = statement.name.span
        types = [argument.type for argument in statement.arguments]
        for other in overloads:
            if [*other.types] == types:
                if statement.if_not_exists:
                    return other
                raise error("DUPLICATE_FUNCTION", span=span, function=other)
        language = _LANGUAGES.get(statement.language)
        if language is None:
            raise error("FUNCTION_LANGUAGE", span=span, language=statement.language.upper())
        self._check_types(statement)
        return self._java(statement, values) if language == "java" else self._python(statement, values)

    def _check_types(self, statement: CreateFunction) -> None:
        for type_, span in [(a.type, a.span) for a in statement.arguments] + [(statement.returns, statement.name.span)]:
            if not isinstance(type_, Scalar) or type_.name not in SCALARS:
                raise error("FUNCTION_TYPE_NOT_BUILT", span=span, name=statement.name, type=type_, able=SCALARS)
        if not 1 <= len(statement.arguments) <= MOST_ARGUMENTS:
            span = statement.name.span
            raise error("FUNCTION_WITHOUT_ARGUMENTS", span=span, name=statement.name, most=MOST_ARGUMENTS)

    def _only(self, statement: CreateFunction, values: Mapping[str, PropertyValue], *allowed: str) -> None:
        for name, value in values.items():
            if name not in (*allowed, "description"):
                shown = statement.language.upper()
                raise error("FUNCTION_PROPERTY_UNUSED", span=value.span, property=name, language=shown)

    def _java(self, statement: CreateFunction, values: Mapping[str, PropertyValue]) -> UserFunction:
        span, name = statement.name.span, str(statement.name)
        self._only(statement, values, "source.name", "class.name")
        for needed, example in (("source.name", "jars"), ("class.name", "com.acme.Slug")):
            if needed not in values:
                raise error("FUNCTION_PROPERTY_MISSING", span=span, name=name, needed=f"'{needed}' = '{example}'")
        wanted, entry = str(values["source.name"].value).lower(), str(values["class.name"].value)
        source = self.sources.get(wanted)
        if source is None:
            nearest = did_you_mean(wanted, self.sources)
            raise error("UNKNOWN_FUNCTION_SOURCE", span=values["source.name"].span, name=wanted, nearest=nearest)
        if entry not in source.classes:
            nearest = did_you_mean(entry, source.classes)
            place = values["class.name"].span
            raise error("FUNCTION_NOT_IN_FILE", span=place, entry=entry, file=source.name, nearest=nearest)
        return self._made(statement, "java", source.file, entry, source.digest, source=source.name)

    def _python(self, statement: CreateFunction, values: Mapping[str, PropertyValue]) -> UserFunction:
        span, name = statement.name.span, str(statement.name)
        self._only(statement, values, "module", "function", "vectorized")
        module = values.get("module")
        if module is None:
            raise error("FUNCTION_PROPERTY_MISSING", span=span, name=name, needed="'module' = 'functions.text'")
        written = str(module.value)
        if not _MODULE.fullmatch(written):
            raise error("FUNCTION_FILE_INVALID", span=module.span, file=written, reason="it is not a valid module name")
        path = self.settings.root.joinpath(*written.split(".")).with_suffix(".py").resolve()
        entry = str(values["function"].value) if "function" in values else name
        place = values["function"].span if "function" in values else span
        try:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
        except (OSError, ValueError, SyntaxError) as problem:
            raise error("FUNCTION_FILE_INVALID", span=module.span, file=written, reason=_reason(problem)) from problem
        _check_python(tree, entry, written, len(statement.arguments), place)
        vectorized = bool(values["vectorized"].value) if "vectorized" in values else False
        digest = hashlib.sha256(text.encode()).hexdigest()
        return self._made(statement, "python", str(path), entry, digest, vectorized=vectorized)

    def _made(
        self,
        statement: CreateFunction,
        language: Language,
        file: str,
        entry: str,
        digest: str,
        *,
        vectorized: bool = False,
        source: str = "",
    ) -> UserFunction:
        arguments = tuple((argument.name, argument.type) for argument in statement.arguments)
        return UserFunction(
            name=str(statement.name),
            arguments=arguments,
            returns=statement.returns,
            language=language,
            file=file,
            entry=entry,
            digest=digest,
            vectorized=vectorized,
            source=source,
            root=str(self.settings.root),
            origin=statement.origin,
        )


def _reason(problem: Exception) -> str:
    if isinstance(problem, SyntaxError):
        return f"line {problem.lineno}: {problem.msg}"
    return str(problem.strerror or problem) if isinstance(problem, OSError) else "it is not UTF-8"


def _check_python(tree: ast.Module, entry: str, module: str, count: int, span: Span | None) -> None:
    """Refuse a module that does not define the function, or whose function does not take ``count`` arguments by
    position (FUNCTION_NOT_IN_FILE, FUNCTION_ARITY)."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    definition = next((node for node in functions if node.name == entry), None)
    if definition is None:
        nearest = did_you_mean(entry, [node.name for node in functions])
        raise error("FUNCTION_NOT_IN_FILE", span=span, entry=entry, file=module, nearest=nearest)
    parameters = definition.args
    positional = [*parameters.posonlyargs, *parameters.args]
    least = len(positional) - len(parameters.defaults)
    most = MOST_ARGUMENTS if parameters.vararg else len(positional)
    needs_names = any(default is None for default in parameters.kw_defaults)
    if not least <= count <= most or needs_names:
        raise error("FUNCTION_ARITY", span=span, entry=entry, file=module, count=count)


def functions_digest(root: Path, texts: Iterable[tuple[str, str]]) -> bytes:
    """Digest of the jars and modules that a project's SQL names."""
    digest = hashlib.sha256()
    for _, text in texts:
        for match in _FILE.finditer(text) if _STATEMENT.search(text) else ():
            name = match["path"]
            path = root / (name if match["what"].lower() == "file" else name.replace(".", "/") + ".py")
            digest.update(name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return digest.digest()


_LANGUAGES: Mapping[str, Language] = {"java": "java", "python": "python"}
SCALARS = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "VARCHAR",
    "VARBINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
)
"""Types of arguments and results of a user's function."""
