"""The window functions of FROM and the words before their durations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WindowForm:
    """Words before the durations of a window function; ``step`` is empty if it has only one duration."""

    size: tuple[str, ...]
    step: tuple[str, ...] = ()


WINDOWS: dict[str, WindowForm] = {
    "tumble": WindowForm(("size",)),
    "hop": WindowForm(("size",), ("advance", "by")),
    "cumulate": WindowForm(("size",), ("step",)),
    "session": WindowForm(("gap",)),
}


def window_words(form: WindowForm, size: int | None, step: int | None) -> str:
    """The missing durations, for messages; ``')'`` if none is missing."""
    missing = [words for words, value in ((form.size, size), (form.step, step)) if words and value is None]
    return ", ".join(" ".join(words).upper() + " n unit" for words in missing) or "')'"
