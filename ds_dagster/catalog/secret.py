"""Declared secrets: where the values are that properties of stores and schema registries refer to."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from ds_dagster.catalog.properties.secret_types import SECRET_TYPES, SecretType
from ds_dagster.catalog.properties.spec import PropertyIndex
from ds_dagster.catalog.properties.values import REFERENCE, PropertyValue, located, secret_names
from ds_dagster.catalog.records import Findings
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.redaction import MASK
from ds_dagster.settings import Settings
from ds_dagster.sql.statements import CreateSecret, Origin, Property


@dataclass(frozen=True, slots=True)
class SecretDefinition:
    """CREATE SECRET after conversion: folded name, type, properties (references unresolved)."""

    name: str
    type: SecretType
    span: Span
    origin: Origin
    properties: Mapping[str, PropertyValue] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_carried(self) -> bool:
        """Whether a job's slice may carry its declaration: it holds no literal."""
        literal = self.properties.get("secret_string")
        return literal is None or literal.is_only_references


def declare_secret(
    statement: CreateSecret, settings: Settings, index: PropertyIndex
) -> tuple[SecretDefinition | None, Sequence[Diagnostic]]:
    """Convert one CREATE SECRET. None with the reasons when it is refused."""
    findings = Findings()
    type_ = findings.collect(lambda: _type_of(statement))
    pulled = index.pull([p for p in statement.properties if p.name != "type"], "secret")
    findings.extend(pulled.diagnostics)
    if type_ is None:
        return None, findings.diagnostics
    name = str(statement.name).lower()
    for problem in _misfits(statement, type_, pulled.values):
        findings.add(problem)
    values = dict(pulled.values)
    if "secret_file" in values:
        values["secret_file"] = located(settings.root, values["secret_file"])
    for warning in _warnings(name, values):
        findings.warn(warning)
    origin = without_secrets(statement.origin, statement.properties, index, words_are_names=False)
    secret = SecretDefinition(name, type_, statement.name.span, origin, MappingProxyType(values))
    return (None if findings.failed else secret), findings.diagnostics


def _type_of(statement: CreateSecret) -> SecretType:
    written = next((p for p in statement.properties if p.name == "type"), None)
    wanted = str(written.value).lower() if written is not None else ""
    for type_ in SECRET_TYPES:
        if type_ == wanted:
            return type_
    span = written.value_span if written is not None else statement.name.span
    types, name = ", ".join(SECRET_TYPES), str(statement.name)
    raise error("SECRET_TYPE_UNKNOWN", span=span, name=name, type=wanted or "none", known=types)


def _misfits(statement: CreateSecret, type_: SecretType, values: Mapping[str, PropertyValue]) -> Iterator[DsError]:
    """Diagnostics for missing properties and for properties of another secret type."""
    form = SECRET_TYPES[type_]
    for name, value in values.items():
        if name not in (form.required, *form.optional, "description"):
            yield error("SECRET_PROPERTY_OF_OTHER_TYPE", span=value.span, name=name, type=type_)
        elif any(secret_names(str(value.value))):
            yield error("SECRET_IN_SECRET", span=value.span, name=name, secret=str(statement.name))
    if form.required not in values:
        params = {"secret": str(statement.name), "type": type_, "name": form.required, "example": form.example}
        yield error("SECRET_PROPERTY_MISSING", span=statement.name.span, **params)


def _warnings(name: str, values: Mapping[str, PropertyValue]) -> Iterator[DsError]:
    """A literal, and a file that everybody on the machine may read."""
    literal = values.get("secret_string")
    if literal is not None and not literal.is_reference:
        yield error("LITERAL_SECRET", span=literal.span, name="secret_string", owner=f"secret {name}")
    file = values.get("secret_file")
    if file is not None and not file.is_reference and _is_open(Path(str(file.value))):
        yield error("SECRET_FILE_OPEN", span=file.span, secret=name, file=str(file.value))


def _is_open(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False  # reported where it is read: it may exist only where the engine runs


# references to secrets


def named_secrets(properties: Iterable[Property], index: PropertyIndex) -> Iterator[tuple[str, Span]]:
    """Name and place of every secret that properties of a store or registry name: ``${secret:name}`` in a text, a
    bare word as the value of a secret property."""
    for item in properties:
        spec = index.find(item.name)
        if spec is not None and spec.secret and item.kind == "word":
            yield str(item.value).lower(), item.value_span
        elif isinstance(item.value, str):
            yield from ((name, item.value_span) for name in secret_names(item.value))


def unknown_secrets(
    named: Iterable[tuple[str, Span | None]], secrets: Mapping[str, SecretDefinition | None]
) -> Iterator[DsError]:
    """UNKNOWN_SECRET for undeclared names, SECRET_REFUSED where the declaration was refused (None)."""
    for name, span in dict(named).items():
        if name not in secrets:
            yield error("UNKNOWN_SECRET", span=span, name=name, nearest=did_you_mean(name, secrets))
        elif secrets[name] is None:
            yield error("SECRET_REFUSED", span=span, name=name)


# what may be shown of statements


def without_secrets(
    origin: Origin, properties: Iterable[Property], index: PropertyIndex, *, words_are_names: bool = True
) -> Origin:
    """Mask literal secrets and defaults of references in a statement's text, which is shown in many places.

    Args:
        origin: of the statement.
        properties: written in it.
        index: tells which properties are secret.
        words_are_names: a bare word is the name of a secret and stays; False: it is masked.
    """
    text = origin.text
    for item in sorted(properties, key=lambda item: (item.value_span.line, item.value_span.column), reverse=True):
        spec = index.find(item.name)
        if spec is None or not spec.secret or (words_are_names and item.kind == "word"):
            continue
        start, end = _offset(origin, item.value_span), _offset(origin, item.value_span, end=True)
        text = text[:start] + _hidden(item, text[start:end]) + text[end:]
    return replace(origin, text=text)


def _hidden(item: Property, written: str) -> str:
    if isinstance(item.value, str) and REFERENCE.search(item.value):
        for match in REFERENCE.finditer(item.value):
            written = written.replace(":-" + match["default"], ":-" + MASK) if match["default"] else written
        outside = [part for part in REFERENCE.sub("\0", item.value).split("\0") if part]
        return written if not outside else f"'{MASK}'"
    return f"'{MASK}'"


def _offset(origin: Origin, span: Span, *, end: bool = False) -> int:
    """Offset of a place in the text of its statement."""
    line, column = (span.end_line or span.line, span.end_column or span.column) if end else (span.line, span.column)
    starts = [0]
    for part in origin.text.split("\n")[:-1]:
        starts.append(starts[-1] + len(part) + 1)
    down = line - origin.span.line
    return starts[down] + column - (origin.span.column if down == 0 else 1)
