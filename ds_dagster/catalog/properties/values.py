"""Values of WITH properties: plain data that may hold ``${NAME}`` / ``${NAME:-default}`` references, which are resolved
only by the process that connects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ds_dagster.diagnostics import Span
from ds_dagster.errors import error

SECRET_PREFIX = "secret:"
REFERENCE = re.compile(r"\$\{(?P<name>secret:[^}:\s]+|[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
"""``${NAME}``, ``${NAME:-default}`` of the environment, ``${secret:name}`` of a declared secret."""
SecretReader = Callable[[str, str], str]
"""(name of a declared secret, what uses it) → its value. Raises: UserError UNKNOWN_SECRET, SECRET_MISSING,
SECRET_DENIED; ExternalError SECRET_UNREACHABLE."""


@dataclass(frozen=True, slots=True, repr=False)
class PropertyValue:
    """One converted property.

    Attributes:
        value: text (references still in it), whole number or truth value.
        secret: hidden in every rendering; a literal (no reference) in a file is warned about.
        span: where it was written; None for values of the overlay, a profile or an inference.
        file: the value is in this file (absolute path, or a reference to one); read where it is resolved. Empty
            otherwise.
        entry: with ``file``: the name of the line of a properties file that holds it; empty = the whole file is the
            value.
        parts: when not empty, the value is these parts one after the other (a login line made of user and password).
        quoted: as a part, quotes and backslashes in it are escaped.
    """

    value: str | int | bool
    secret: bool = False
    span: Span | None = None
    file: str = ""
    entry: str = ""
    parts: tuple[PropertyValue, ...] = ()
    quoted: bool = False

    @property
    def is_reference(self) -> bool:
        """Whether the value is known only after it is resolved."""
        if self.parts:
            return any(part.is_reference for part in self.parts)
        return bool(self.file) or (isinstance(self.value, str) and REFERENCE.search(self.value) is not None)

    @property
    def is_only_references(self) -> bool:
        """Whether the text is made of references alone: no other text, no default."""
        text = str(self.value)
        return REFERENCE.sub("", text) == "" and not any(match["default"] for match in REFERENCE.finditer(text))

    def shown(self) -> str:
        """Text that may be shown to anyone: references without defaults, a literal secret as ``********``."""
        if self.parts:
            return (
                "********" if any(part.secret for part in self.parts) else "".join(part.shown() for part in self.parts)
            )
        if self.file:
            return f"(file {self.file}{f', {self.entry}' if self.entry else ''})"
        if not self.secret:
            return str(self.value)
        names = [match["name"] for match in REFERENCE.finditer(str(self.value))]
        return " ".join("${" + name + "}" for name in names) or "********"

    def __repr__(self) -> str:
        return f"PropertyValue({self.shown()})"


def path_in(root: Path, value: PropertyValue) -> Path:
    """Absolute path of the file that a property names: relative to the project, with or without a leading ``@``."""
    return (root / str(value.value).removeprefix("@")).resolve()


def located(root: Path, value: PropertyValue) -> PropertyValue:
    """A property that names a file with its absolute path; a reference stays until it is resolved."""
    return value if value.is_reference else replace(value, value=str(path_in(root, value)))


def secret_names(text: str) -> Iterator[str]:
    """Lower-case names of the declared secrets a text refers to."""
    names = (match["name"] for match in REFERENCE.finditer(text))
    return (name.removeprefix(SECRET_PREFIX).lower() for name in names if name.startswith(SECRET_PREFIX))


def secret_reference(name: str) -> str:
    """The reference to a declared secret."""
    return "${" + SECRET_PREFIX + name.lower() + "}"


def resolve(
    value: PropertyValue, environment: Mapping[str, str], used_by: str, secrets: SecretReader | None = None
) -> str:
    """The plain text of a value.

    Args:
        value: with its references.
        environment: where ``${NAME}`` is looked up.
        used_by: owner of the value, for the message (``store prod_kafka``).
        secrets: reads declared secrets; None where there are none.

    Raises:
        UserError: ENVIRONMENT_REFERENCE_MISSING, VALUE_FILE_UNREADABLE; conditions of ``secrets``.
    """
    if value.parts:
        return "".join(_part(part, resolve(part, environment, used_by, secrets)) for part in value.parts)
    if value.file:
        return _from_file(value, environment, used_by, secrets)
    if isinstance(value.value, bool):
        return "true" if value.value else "false"
    return resolve_text(str(value.value), environment, used_by, secrets)


def _part(part: PropertyValue, text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if part.quoted else text


def _from_file(value: PropertyValue, environment: Mapping[str, str], used_by: str, secrets: SecretReader | None) -> str:
    path = resolve_text(value.file, environment, used_by, secrets)
    text = read_value_file(path, used_by)
    if not value.entry:
        return text.strip()
    entry = parse_properties(text).get(value.entry)
    if entry is None:
        reason = f"it has no line for {value.entry}"
        raise error("VALUE_FILE_UNREADABLE", file=path, used_by=used_by, reason=reason)
    return resolve_text(entry, environment, used_by, secrets)


def read_value_file(path: str, used_by: str) -> str:
    """Text of a file that holds values.

    Raises:
        UserError: VALUE_FILE_UNREADABLE.
    """
    try:
        with Path(path).open(encoding="utf-8") as handle:
            return handle.read()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror or "not readable" if isinstance(problem, OSError) else "not UTF-8 text"
        raise error("VALUE_FILE_UNREADABLE", file=path, used_by=used_by, reason=reason) from problem


QUOTES = "'\"`\u2018\u2019\u201c\u201d"


def parse_properties(text: str) -> dict[str, str]:
    """Lines ``name = value`` or ``name: value`` as Java reads them, ``#`` and ``!`` comments, optional quotes of any
    kind around name and value (published texts have typographic ones). Names are folded to lower case; lines without
    ``=`` or ``:`` are skipped."""
    entries: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        at = min((i for i in (stripped.find("="), stripped.find(":")) if i > 0), default=-1)
        if at > 0:
            entries[stripped[:at].strip().strip(QUOTES).lower()] = stripped[at + 1 :].strip().strip(QUOTES)
    return entries


def resolve_text(text: str, environment: Mapping[str, str], used_by: str, secrets: SecretReader | None = None) -> str:
    """Replace every reference in a text.

    Raises:
        UserError: ENVIRONMENT_REFERENCE_MISSING, UNKNOWN_SECRET; conditions of ``secrets``.
    """

    def replacement(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if name.startswith(SECRET_PREFIX):
            name = name.removeprefix(SECRET_PREFIX).lower()
            if secrets is None:
                raise error("UNKNOWN_SECRET", name=name, nearest="CREATE SECRET")
            return secrets(name, used_by)
        if name in environment:
            return environment[name]
        if default is not None:
            return default
        raise error("ENVIRONMENT_REFERENCE_MISSING", name=name, used_by=used_by)

    return REFERENCE.sub(replacement, text)
