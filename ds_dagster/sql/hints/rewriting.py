"""Rewrites a statement of another dialect in ours, for the hint of a refusal.

Each rule finds one form among the tokens and changes its text. The caller shows the result only if it can be parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.sql.source import SourceText

WORDS = (TokenType.VAR, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT)
NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
FLINK_WINDOWS = {
    "tumble": ("SIZE {0}",),
    "hop": ("SIZE {1}", "ADVANCE BY {0}"),
    "cumulate": ("SIZE {1}", "STEP {0}"),
    "session": ("GAP {0}",),
}
"""Window function → our durations; ``{n}`` is the n-th duration of Flink's call."""
KSQL_WINDOWS = {"tumbling": "TUMBLE", "hopping": "HOP", "session": "SESSION"}
RANK = "place"
"""Name of the column for a rank in QUALIFY."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters from ``start`` to before ``end`` by ``text``."""

    start: int
    end: int
    text: str = ""


class Form:
    """The tokens of one statement, with methods to search for forms."""

    def __init__(self, source: SourceText, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.words = [token.text.lower() if token.token_type in WORDS else "" for token in tokens]

    def at(self, place: int, *words: str) -> bool:
        """Whether these words begin at a token's index."""
        return tuple(self.words[place : place + len(words)]) == words

    def find(self, *words: str, start: int = 0) -> int:
        """Index of the first of these words outside of brackets that open after ``start``; -1 if there is none."""
        depth = 0
        for place in range(start, len(self.tokens)):
            depth += (self.words[place] == "(") - (self.words[place] == ")")
            if depth <= 0 and self.at(place, *words):
                return place
        return -1

    def closing(self, place: int) -> int:
        """Index of the bracket that closes the bracket at ``place``; -1 if there is none."""
        depth = 0
        for other in range(place, len(self.tokens)):
            depth += (self.words[other] == "(") - (self.words[other] == ")")
            if depth == 0:
                return other
        return -1

    def text(self, first: int, last: int) -> str:
        """Source text from the first token to the end of the last one."""
        return self.source.text[self.tokens[first].start : self.tokens[last].end + 1]

    def path(self, place: int) -> int:
        """Index of the last token of a name with dots that begins at ``place``; -1 if there is none."""
        if place >= len(self.tokens) or self.tokens[place].token_type not in NAMES:
            return -1
        while self.at(place + 1, ".") and self.tokens[place + 2].token_type in NAMES:
            place += 2
        return place

    def without(self, first: int, last: int) -> Edit:
        """The edit that removes tokens and the blanks before them."""
        start = self.tokens[first - 1].end + 1 if first else self.tokens[first].start
        return Edit(start, self.tokens[last].end + 1)


def rewritten(source: SourceText, tokens: Sequence[Token]) -> str:
    """The statement on one line with all known forms rewritten; empty if there are none, if edits overlap, or if the
    line may show a secret."""
    form = Form(source, tokens)
    edits = sorted((edit for rule in RULES for edit in rule(form)), key=lambda edit: edit.start, reverse=True)
    if not edits or any(late.start < early.end for late, early in pairwise(edits)):
        return ""
    start, text = tokens[0].start, source.text[: tokens[-1].end + 1]
    for edit in edits:
        text = text[: edit.start] + edit.text + text[edit.end :]
    line = " ".join(text[start:].split())
    return line if SourceText("", line).line_text(1) == line else ""


def _flink_window(form: Form) -> Iterator[Edit]:
    """``TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), INTERVAL '1' MINUTE))``."""
    for place, word in enumerate(form.words):
        function = form.words[place + 2] if place + 2 < len(form.words) else ""
        if word != "table" or function not in FLINK_WINDOWS or not form.at(place + 4, "table"):
            continue
        last = form.path(place + 5)
        if last < 0 or not form.at(last + 1, ",", "descriptor", "(") or not form.at(last + 5, ")"):
            continue
        relation, column = form.text(place + 5, last), form.tokens[last + 4].text
        at, durations = last + 6, []
        while form.at(at, ",", "interval") and at + 3 < len(form.tokens):
            durations.append(f"{form.tokens[at + 2].text} {form.words[at + 3].upper()}")
            at += 4
        parts = FLINK_WINDOWS[function]
        if len(durations) == len(parts) and form.at(at, ")", ")"):
            shown = ", ".join(part.format(*durations) for part in parts)
            text = f"{function.upper()}({relation} WITH ('timestamp' = '{column}'), {shown})"
            yield Edit(form.tokens[place].start, form.tokens[at + 1].end + 1, text)


def _watermark(form: Form) -> Iterator[Edit]:
    """``WATERMARK FOR c AS …`` in a column list."""
    place = next((p for p in range(len(form.tokens)) if form.at(p, "watermark", "for")), 0)
    if not place or not form.at(place - 1, ","):
        return
    end, depth = place, 0
    while end < len(form.tokens) and not (depth == 0 and form.words[end] in (",", ")")):
        depth += (form.words[end] == "(") - (form.words[end] == ")")
        end += 1
    written = f"'timestamp' = '{form.tokens[place + 2].text}'"
    yield form.without(place - 1, end - 1)
    properties = next((p for p in range(end, len(form.tokens)) if form.at(p, "with", "(")), 0)
    offset = form.tokens[properties + 1 if properties else -1].end + 1
    yield Edit(offset, offset, f"{written}, " if properties else f" WITH ({written})")


def _system_time(form: Form) -> Iterator[Edit]:
    """``FOR SYSTEM_TIME AS OF time``."""
    for place in range(len(form.tokens)):
        last = form.path(place + 4) if form.at(place, "for", "system_time", "as", "of") else -1
        if last >= 0:
            yield form.without(place, last + 2 if form.at(last + 1, "(", ")") else last)


def _ksql_window(form: Form) -> Iterator[Edit]:
    """``FROM t WINDOW TUMBLING (SIZE 1 MINUTE) … GROUP BY k EMIT CHANGES``."""
    begin = form.find("from")
    last = form.path(begin + 1) if begin >= 0 else -1
    place = form.find("window", start=max(last, 0))
    function = KSQL_WINDOWS.get(form.words[place + 1], "") if 0 <= place < len(form.words) - 2 else ""
    closing = form.closing(place + 2) if function and form.at(place + 2, "(") else -1
    group = form.find("group", "by", start=max(closing, 0))
    if closing < 0 or group < 0 or place - last > 3:
        return
    inside = form.text(place + 3, closing - 1)
    durations = f"GAP {inside}" if function == "SESSION" else inside
    relation = form.text(begin + 1, last)
    yield Edit(form.tokens[begin - 1].end + 1, form.tokens[begin - 1].end + 1, ", window_start, window_end")
    yield Edit(form.tokens[begin + 1].start, form.tokens[last].end + 1, f"{function}({relation}, {durations})")
    yield form.without(place, closing)
    yield Edit(form.tokens[group + 1].end + 1, form.tokens[group + 1].end + 1, " window_start, window_end,")
    emit = form.find("emit", start=group)
    if emit >= 0:
        text = " QUERY WITH ('emit.mode' = 'updates')" if form.at(emit + 1, "changes") else ""
        edit = form.without(emit, min(emit + 1, len(form.tokens) - 1))
        yield Edit(edit.start, edit.end, text)


def _qualify(form: Form) -> Iterator[Edit]:
    """``SELECT a FROM t QUALIFY ROW_NUMBER() OVER (…) = 1``."""
    select, place = form.find("select"), form.find("qualify")
    begin = form.find("from", start=max(select, 0))
    names = _names(form, select + 1, begin - 1) if 0 <= select < begin < place else ()
    if not names:
        return
    over = form.find("over", "(", start=place)
    closing = form.closing(over + 1) if over >= 0 else -1
    last = len(form.tokens) - 1
    items, rows = form.text(select + 1, begin - 1), form.text(begin, place - 1)
    if closing < 0:
        test = form.text(place + 1, last)
    elif closing < last:
        items, test = f"{items}, {form.text(place + 1, closing)} AS {RANK}", f"{RANK} {form.text(closing + 1, last)}"
    else:
        return
    text = " ".join(("SELECT", ", ".join(names), "FROM (SELECT", items, rows + ") q WHERE", test))
    yield Edit(form.tokens[select].start, form.tokens[last].end + 1, text)


def _names(form: Form, first: int, last: int) -> tuple[str, ...]:
    """Names of the columns of a SELECT list; empty if a column has no name."""
    names: list[str] = []
    begin = first
    while begin <= last:
        comma = form.find(",", start=begin)
        end = comma - 1 if begin <= comma <= last else last
        is_named = form.path(begin) == end or form.at(end - 1, "as")
        if not is_named or form.tokens[end].token_type not in NAMES:
            return ()
        names.append(form.text(end, end))
        begin = end + 2
    return tuple(names)


RULES = (_flink_window, _watermark, _system_time, _ksql_window, _qualify)
