"""The figures that sizes are computed from, each with its source: ``coefficients.toml`` next to this file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds_dagster.errors import error
from ds_dagster.names import did_you_mean
from ds_dagster.settings import toml_table

TABLE = Path(__file__).with_name("coefficients.toml")
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One figure.

    Attributes:
        name: ``group.name``.
        value, unit: of the figure.
        page, run, taken: its source, one of the three; see the head of ``coefficients.toml``.
        about: what was measured.
    """

    name: str
    value: float
    unit: str
    page: str = ""
    run: str = ""
    taken: str = ""
    about: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether this figure was measured, not taken from another one."""
        return not self.taken

    @property
    def source(self) -> str:
        """Its source, for people."""
        shown = f"{self.about}, docs/performance.md" if self.about else "docs/performance.md"
        return self.taken or self.run or shown


@dataclass(frozen=True, slots=True)
class Coefficients:
    """All coefficients, by name."""

    entries: Mapping[str, Coefficient]

    def of(self, group: str, name: str) -> Coefficient:
        """The figure of a name, or the figure ``other`` of its group."""
        return self.entries.get(f"{group}.{name}") or self.entries[f"{group}.{OTHER}"]

    def value(self, name: str) -> float:
        """The value of a figure by its full name."""
        return self.entries[name].value


def load_coefficients(more: Path | None = None) -> Coefficients:
    """The table of this package; entries of the file ``more`` replace its entries.

    Raises:
        UserError: SIZE_FILE_INVALID.
    """
    entries = {entry.name: entry for entry in _entries(TABLE, None)}
    if more is not None:
        entries |= {entry.name: entry for entry in _entries(more, entries)}
    return Coefficients(entries)


def read_table(path: Path) -> Mapping[str, Any]:
    """Read a TOML file. Raises: UserError SIZE_FILE_INVALID."""
    try:
        return toml_table(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise error("SIZE_FILE_INVALID", file=str(path), reason=str(problem)) from problem


def _entries(path: Path, own: Mapping[str, Coefficient] | None) -> Iterator[Coefficient]:
    for group, names in read_table(path).items():
        tables = {group: names} if isinstance(names, dict) and "value" in names else {
            f"{group}.{name}": entry for name, entry in (names.items() if isinstance(names, dict) else ())
        }  # fmt: skip
        for name, entry in tables.items():
            if own is not None and name not in own:
                raise error(
                    "SIZE_FILE_INVALID", file=str(path), reason=f"no figure {name}; known: {did_you_mean(name, own)}"
                )
            number = entry.get("value") if isinstance(entry, dict) else None
            if not isinstance(number, int | float) or isinstance(number, bool) or not 0 < number < float("inf"):
                raise error("SIZE_FILE_INVALID", file=str(path), reason=f"{name}.value is not a number above 0")
            texts = {key: str(entry.get(key, "")) for key in ("unit", "page", "run", "taken", "about")}
            yield Coefficient(name, float(number), **texts)
