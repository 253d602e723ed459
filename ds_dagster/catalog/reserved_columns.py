"""Names of columns that travel beside those of the user: no column that is written may have one."""

from __future__ import annotations

from typing import Final

CORRUPT: Final = "__corrupt"
"""Why a record cannot be read, inside of what was read of it: no column that is read may have it either."""
RESERVED_COLUMNS: Final = frozenset(
    {
        CORRUPT,
        "__copy",
        "__deleted",
        "__element",
        "__element_key",
        "__event_time",
        "__framed",
        "__framed_key",
        "__guard",
        "__holds",
        "__key",
        "__left_key",
        "__left_out",
        "__left_time",
        "__number",
        "__order",
        "__partition",
        "__payload",
        "__place",
        "__record",
        "__right_time",
        "__row",
        "__rows",
        "__sink",
        "__value",
        "__violated",
        "__weight",
        "__window",
        "__window_number",
    }
)
"""Every name of the kind in ``spark/`` and of the tables' loaders; a test holds the list against the code."""
