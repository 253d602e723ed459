"""WITH properties as declared facts: name, type, where each may be; pulled by name, left-overs refused.

The one table of all properties is ``catalog/properties/table.py``; a store kind picks its own from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ds_dagster.catalog.properties.values import REFERENCE, SECRET_PREFIX, PropertyValue, secret_reference
from ds_dagster.catalog.reading.starting import offsets_text
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import DsError, error
from ds_dagster.names import did_you_mean
from ds_dagster.sql.statements import Property

if TYPE_CHECKING:
    from ds_dagster.catalog.store import StoreKind

_PAIR = re.compile(r"([0-9]{1,10})\s*:\s*([0-9]{1,129})")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
PropertyType = Literal[
    "text", "word", "integer", "boolean", "name", "names", "type", "millis", "moment", "offsets", "file", "ratio"
]
Place = Literal["store", "registry", "secret", "relation", "sink", "source", "query", "entity", "descriptor_source",
              "function_source", "function", "compute_pool"]  # fmt: skip

PLACES: Mapping[Place, str] = MappingProxyType(
    {
        "store": "CREATE STORE … WITH",
        "registry": "CREATE SCHEMA_REGISTRY … WITH",
        "secret": "CREATE SECRET … WITH",
        "relation": "WITH of CREATE STREAM, CHANGELOG or TABLE with columns",
        "sink": "WITH of CREATE … AS SELECT",
        "source": "WITH after a source in FROM or JOIN",
        "query": "QUERY WITH after the SELECT",
        "entity": "WITH of CREATE ENTITY or UPDATE ENTITY",
        "descriptor_source": "CREATE DESCRIPTOR_SOURCE … WITH",
        "function_source": "CREATE FUNCTION_SOURCE … WITH",
        "function": "CREATE FUNCTION … WITH",
        "compute_pool": "CREATE COMPUTE_POOL … WITH",
    }
)


CONNECTIONS: tuple[Place, ...] = ("store", "registry")
"""Where references are allowed and a bare word may name a secret."""


@dataclass(frozen=True, slots=True)
class PropertySpec:
    """One property.

    Attributes:
        name: lower case; a trailing ``*`` accepts any suffix (``kafka.topic.*``).
        type: how the value is converted; ``word`` is one of ``choices`` in any case and quoting, ``names`` a comma
            list, ``moment`` ISO 8601 or epoch milliseconds (converted to the latter), ``offsets`` pairs of a partition
            and an offset (converted to :func:`offsets_text`).
        places: where it may be. ``relation`` = DDL with columns, ``sink`` = WITH of CREATE … AS, ``source`` = WITH
            after a source in FROM, ``query`` = QUERY WITH, ``store``, ``registry``, ``entity``, ``descriptor_source``,
            ``function_source``, ``function``, ``compute_pool``.
        doc: one line for the docs and for errors.
        choices: closed set for ``word``.
        minimum: of integers and millis.
        secret: never shown.
        aliases: older spellings.
        not_yet: reason it is refused for now, empty when built.
        choice_aliases: (word, the choice it means) of other spellings.
        choices_not_yet: legal words that are refused for now, with the reason.
        entries: allowed suffixes of a name with ``*``: a value is checked by the entry of its suffix and kept as text;
            empty: any suffix.
        other_entries: prefixes of further suffixes, whose values are not checked.
    """

    name: str
    type: PropertyType
    places: tuple[Place, ...]
    doc: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    secret: bool = False
    aliases: tuple[str, ...] = ()
    not_yet: str = ""
    choices_not_yet: tuple[tuple[str, str], ...] = ()
    choice_aliases: tuple[tuple[str, str], ...] = ()
    entries: tuple[PropertySpec, ...] = ()
    other_entries: tuple[str, ...] = ()

    def entry(self, name: str) -> PropertySpec | None:
        """The spec for the value of a whole name: this spec where the family has no narrower rule, None for an unknown
        name."""
        suffix = name[len(self.name) - 1 :]
        if not self.entries or suffix.startswith(self.other_entries):
            return self
        return next((entry for entry in self.entries if entry.name == suffix), None)


@dataclass(frozen=True, slots=True)
class Pulled:
    """Converted values by canonical name, and diagnostics for the others."""

    values: Mapping[str, PropertyValue] = field(default_factory=lambda: MappingProxyType({}))
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class PropertyIndex:
    """All properties by every spelling; ``limited``: canonical name → names of the only store kinds that have it."""

    by_name: Mapping[str, PropertySpec]
    prefixes: tuple[PropertySpec, ...]
    limited: Mapping[str, tuple[str, ...]]

    def find(self, name: str) -> PropertySpec | None:
        """The spec a written name means, or None."""
        exact = self.by_name.get(name)
        if exact is not None:
            return exact
        return next(
            (spec for spec in self.prefixes if name.startswith(spec.name[:-1]) and name != spec.name[:-1]), None
        )

    def names_at(self, place: Place, kind: str | None) -> tuple[str, ...]:
        """Canonical names allowed at a place (for a store kind), for hints."""
        return tuple(
            dict.fromkeys(
                spec.name
                for spec in (*self.by_name.values(), *self.prefixes)
                if place in spec.places and self._fits(spec, kind)
            )
        )

    def pull(self, written: Iterable[Property], place: Place, kind: str | None = None) -> Pulled:
        """Convert the properties of one WITH clause.

        Args:
            written: properties of one WITH clause.
            place: where the clause is.
            kind: canonical name of the store kind, whose own properties are allowed; None: those of all kinds are.
        """
        values: dict[str, PropertyValue] = {}
        wrong: list[Diagnostic] = []
        first: dict[str, Property] = {}
        for item in written:
            related: tuple[Span, ...] = ()
            try:
                spec = self.allowed(item, place, kind)
                name = item.name if spec.name.endswith("*") else spec.name
                if name in first:
                    related = (first[name].span,)
                    raise error("PROPERTY_TWICE", span=item.span, name=item.name, same_as=first[name].name)
                first[name] = item
                values[name] = PropertyValue(convert(spec, item, place), secret=spec.secret, span=item.value_span)
            except DsError as problem:
                wrong.append(replace(problem.diagnostic(), related=related))
        return Pulled(MappingProxyType(values), tuple(wrong))

    def allowed(self, item: Property, place: Place, kind: str | None) -> PropertySpec:
        """The spec of a property that is written at a place.

        Raises:
            UserError: UNKNOWN_PROPERTY, PROPERTY_MISPLACED, PROPERTY_OF_OTHER_STORE.
            NotYetError: PROPERTY_NOT_YET.
        """
        spec = self.find(item.name)
        if spec is None or spec.entry(item.name) is None:
            among = (
                self.names_at(place, kind) if spec is None else [spec.name[:-1] + entry.name for entry in spec.entries]
            )
            nearest = did_you_mean(item.name, among)
            raise error("UNKNOWN_PROPERTY", span=item.span, name=item.name, place=PLACES[place], nearest=nearest)
        if place not in spec.places:
            belongs = " or ".join(PLACES[p] for p in spec.places)
            raise error("PROPERTY_MISPLACED", span=item.span, name=item.name, place=PLACES[place], belongs=belongs)
        if spec.not_yet:
            raise error("PROPERTY_NOT_YET", span=item.span, name=item.name, reason=spec.not_yet)
        if not self._fits(spec, kind):
            kinds = ", ".join(self.limited[spec.name])
            raise error("PROPERTY_OF_OTHER_STORE", span=item.span, name=item.name, kind=kind, kinds=kinds)
        return spec

    def _fits(self, spec: PropertySpec, kind: str | None) -> bool:
        return kind is None or spec.name not in self.limited or kind in self.limited[spec.name]


def property_index(kinds: Mapping[str, StoreKind]) -> PropertyIndex:
    """The index over the table and the properties of the given kinds; built once per set of kinds."""
    return _index(tuple(dict.fromkeys(kinds.values())))


@lru_cache(maxsize=8)
def _index(kinds: tuple[StoreKind, ...]) -> PropertyIndex:
    from ds_dagster.catalog.properties.table import PROPERTIES  # the table imports the records of this file

    limited: dict[str, tuple[str, ...]] = {}
    specs = dict.fromkeys(PROPERTIES)
    for kind in kinds:
        for spec in (*kind.store_properties, *kind.relation_properties):
            specs[spec] = None
            limited[spec.name] = (*limited.get(spec.name, ()), kind.name)
    exact = [spec for spec in specs if not spec.name.endswith("*")]
    by_name = {name: spec for spec in exact for name in (spec.name, *spec.aliases)}
    prefixes = tuple(spec for spec in specs if spec.name.endswith("*"))
    return PropertyIndex(MappingProxyType(by_name), prefixes, MappingProxyType(limited))


def convert(spec: PropertySpec, item: Property, place: Place) -> str | int | bool:
    """The value of a property, converted to the type of its spec.

    The bare word after a secret property of a store or registry is the name of a declared secret.

    Raises:
        UserError: PROPERTY_INVALID, SECRET_REFERENCE_INVALID. NotYetError: PROPERTY_VALUE_NOT_YET, REFERENCE_NOT_HERE.
    """
    if spec.secret and item.kind == "word" and place in CONNECTIONS:
        return secret_reference(str(item.value))
    if isinstance(item.value, str) and ("${" + SECRET_PREFIX) in item.value:
        _check_secret_references(item)
    if isinstance(item.value, str) and REFERENCE.search(item.value):
        if place not in (*CONNECTIONS, "secret") or spec.type not in ("text", "file"):
            raise error("REFERENCE_NOT_HERE", span=item.value_span, name=item.name)
        return item.value
    entry = spec.entry(item.name)
    if entry is not None and entry is not spec:
        CONVERTERS[entry.type](entry, item)
    return CONVERTERS[spec.type](spec, item)


def _check_secret_references(item: Property) -> None:
    """Raises: UserError SECRET_REFERENCE_INVALID."""
    text = str(item.value)
    references = [match for match in REFERENCE.finditer(text) if match["name"].startswith(SECRET_PREFIX)]
    if len(references) != text.count("${" + SECRET_PREFIX) or any(match["default"] is not None for match in references):
        raise error("SECRET_REFERENCE_INVALID", span=item.value_span, name=item.name)


def invalid(spec: PropertySpec, item: Property, allowed: str) -> DsError:
    """PROPERTY_INVALID of a written value; a secret's value is not repeated."""
    value = "(hidden)" if spec.secret else item.value
    return error("PROPERTY_INVALID", span=item.value_span, name=item.name, value=value, allowed=allowed)


def _text(spec: PropertySpec, item: Property) -> str:
    text = ("true" if item.value else "false") if isinstance(item.value, bool) else str(item.value).strip()
    if not text:
        raise invalid(spec, item, "a text that is not empty")
    return text


def _word(spec: PropertySpec, item: Property) -> str:
    word = _text(spec, item).lower()
    word = dict(spec.choice_aliases).get(word, word)
    if word in spec.choices:
        return word
    for name, reason in spec.choices_not_yet:
        if word == name:
            raise error("PROPERTY_VALUE_NOT_YET", span=item.value_span, name=item.name, value=word, reason=reason)
    raise invalid(spec, item, ", ".join(spec.choices))


def _integer(spec: PropertySpec, item: Property) -> int:
    least = 0 if spec.minimum is None else spec.minimum
    unit = " milliseconds" if spec.type == "millis" else ""
    allowed = f"a whole number{unit and ' of'}{unit} ≥ {least}"
    text = str(item.value).strip()
    if (
        isinstance(item.value, bool)
        or not text.isascii()
        or not text.removeprefix("-").isdigit()
        or int(text) < least
        or int(text) > 2**63 - 1
    ):
        raise invalid(spec, item, allowed)
    return int(text)


def _boolean(spec: PropertySpec, item: Property) -> bool:
    text = str(item.value).strip().lower()
    if text not in ("true", "false"):
        raise invalid(spec, item, "TRUE, FALSE")
    return text == "true"


def _ratio(spec: PropertySpec, item: Property) -> str:
    text = str(item.value).strip()
    if not re.fullmatch(r"0(\.[0-9]+)?|\.[0-9]+|1(\.0+)?", text):
        raise invalid(spec, item, "a number from 0 to 1")
    return text


def _name(spec: PropertySpec, item: Property) -> str:
    return _text(spec, item).lower()


def _moment(spec: PropertySpec, item: Property) -> int:
    """Epoch milliseconds; a text without zone is UTC, as timestamps of the dialect are."""
    text = str(item.value).strip()
    if text.isascii() and text.isdigit() and not isinstance(item.value, bool):
        return _integer(spec, item)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        raise invalid(spec, item, "'2026-01-31T12:00:00Z', or milliseconds since 1970") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    if aware < _EPOCH:
        raise invalid(spec, item, "a time since 1970")
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def _offsets(spec: PropertySpec, item: Property) -> str:
    """Offsets in the order of partitions; each partition may be written once."""
    offsets: dict[int, int] = {}
    for pair in _text(spec, item).split(","):
        match = _PAIR.fullmatch(pair.strip())
        partition, offset = map(int, match.groups()) if match else (-1, -1)
        if not 0 <= partition < 2**31:
            raise invalid(spec, item, "pairs of a partition and the offset of its first record, as in '0:1200,1:1180'")
        if partition in offsets:
            raise invalid(spec, item, f"each partition once, and {partition} is there twice")
        offsets[partition] = offset
    return offsets_text(tuple(sorted(offsets.items())))


def _names(spec: PropertySpec, item: Property) -> str:
    parts = [part.strip() for part in _text(spec, item).split(",")]
    if not all(parts):
        raise invalid(spec, item, "names with commas between them")
    if spec.choices and not all(part.lower() in spec.choices for part in parts):
        raise invalid(spec, item, f"one or several of {', '.join(spec.choices)} with commas between them")
    return ",".join(parts)


CONVERTERS: Mapping[PropertyType, Callable[[PropertySpec, Property], str | int | bool]] = MappingProxyType(
    {
        "text": _text,
        "word": _word,
        "integer": _integer,
        "boolean": _boolean,
        "name": _name,
        "names": _names,
        "type": _text,
        "millis": _integer,
        "moment": _moment,
        "offsets": _offsets,
        "file": _text,
        "ratio": _ratio,
    }
)


def split_names(value: PropertyValue | None) -> Sequence[str]:
    """The parts of a ``names`` property; empty when it is not set."""
    return str(value.value).split(",") if value is not None else ()
