"""WITH properties as declared facts: name, type, default, where each may stand; pulled by name, left-overs refused.

One table here says for every property that is not a store's own where it may stand: sink WITH, source WITH, QUERY WITH.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PropertyType = Literal["text", "word", "integer", "boolean", "name", "names", "type", "millis", "file"]
Place = Literal["store", "relation", "sink", "source", "query", "entity"]


@dataclass(frozen=True, slots=True)
class PropertySpec:
    """One property.

    Attributes:
        name: lower case; a trailing ``*`` accepts any suffix (``kafka.topic.*``).
        type: how the value is converted; ``word`` is one of ``choices`` in any case and quoting, ``names`` a comma list.
        places: where it may stand. ``relation`` = DDL with columns, ``sink`` = WITH of CREATE … AS, ``source`` = WITH behind a
            source in FROM, ``query`` = QUERY WITH, ``store``, ``entity``.
        doc: one line for the docs and for errors.
        choices: closed set for ``word``.
        minimum: of integers and millis.
        secret: never shown.
        aliases: older spellings.
        not_yet: reason it is refused for now, empty when built.
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
