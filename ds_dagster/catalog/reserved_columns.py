"""Names of internal columns, which are processed together with the user's: no written column may have such a name."""

from __future__ import annotations

from typing import Final

CORRUPT: Final = "__corrupt"
"""Column of the reason why a record cannot be read. No column of a relation that is read may have this name either."""
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
        "__pane",
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
"""All internal names in ``spark/`` and in the loaders of tables; a test compares the list with the code."""
