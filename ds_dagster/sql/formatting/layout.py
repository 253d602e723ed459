"""Line breaks and indentation of one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import TokenType

from ds_dagster.sql.formatting.pieces import OPENING, Statement

WIDTH = 120
"""Characters of a line at most, if the line can be broken."""
SHORT = 72
"""Characters of a SELECT … FROM … WHERE, at most, that is not broken into lines."""
STEP = 2
"""Characters of one level of indentation."""
_SIDES = frozenset({"left", "right", "full", "inner", "cross", "natural", "asof", "outer"})
_CLAUSES = frozenset({"select", "from", "where", "having", "limit", "offset", "window", "values", "join"})
_WITH_BY = frozenset({"group", "order", "partition"})
_SETS = frozenset({"union", "except", "intersect"})
_LISTS = frozenset({"select", "group", "order", "partition", "values"})
_SIMPLE = frozenset({"select", "from", "where"})
_QUERIES = frozenset({"select", "with", "values"})
_RELATIONS = frozenset({"stream", "changelog", "table", "view"})
_ONE_PER_LINE = frozenset(
    {"store", "schema_registry", "secret", "descriptor_source", "function_source", "compute_pool"}
)


class Layout:
    """Computes the line breaks of one statement.

    Attributes:
        breaks: index of a token that begins a line → indentation in characters.
    """

    def __init__(self, statement: Statement, blanks: Sequence[bool], indent: int) -> None:
        self.statement = statement
        self.breaks: dict[int, int] = {}
        self._starts: list[int] = []
        end = 0
        for text, blank in zip(statement.texts, blanks, strict=True):
            self._starts.append(end + blank)
            end = self._starts[-1] + len(text)
        self._ends = [start + len(text) for start, text in zip(self._starts, statement.texts, strict=True)]
        size = len(statement.tokens)
        last = size - 1 if size and statement.kind(size - 1) is TokenType.SEMICOLON else size
        self._statement(0, last, indent)

    # measures

    def _length(self, first: int, last: int) -> int:
        return self._ends[last - 1] - self._starts[first] if last > first else 0

    def _has_comment(self, first: int, last: int) -> bool:
        return any(self.statement.gaps[place].comments for place in range(first + 1, last))

    def _must_break(self, first: int, last: int) -> bool:
        """Whether the range contains a comment, or a query that is not short."""
        return self._has_comment(first, last) or any(
            self.statement.kind(place) is TokenType.L_PAREN
            and place in self.statement.closing
            and self.statement.word(place + 1) in _QUERIES
            and not self._is_simple(place + 1, self.statement.closing[place])
            for place in range(first, last)
        )

    def _fits(self, first: int, last: int, column: int, width: int = WIDTH) -> bool:
        return column + self._length(first, last) <= width and not self._must_break(first, last)

    def _is_simple(self, first: int, last: int) -> bool:
        """SELECT … [FROM …] [WHERE …] or VALUES, short, without a comment."""
        words = {self.statement.word(begin) for begin, _ in self._clauses(first, last)}
        is_short = self._length(first, last) <= SHORT and not self._has_comment(first, last)
        return is_short and (words <= _SIMPLE or words == {"values"})

    # statements

    def _statement(self, first: int, last: int, indent: int) -> None:
        statement = self.statement
        if statement.at(first, "begin", "application"):
            inner = next((p for p in range(first + 3, last) if statement.word(p) in ("create", "insert", "use")), last)
            if inner < last:
                self.breaks[inner] = indent + STEP
                self._statement(inner, last, indent + STEP)
        elif statement.word(first) in _QUERIES or statement.kind(first) is TokenType.L_PAREN:
            self._query(first, last, indent)
        else:
            body = self._body(first, last)
            self._head(first, body, indent)
            if body < last:
                self.breaks[body] = indent + STEP
                self._query(body, last, indent + STEP)

    def _body(self, first: int, last: int) -> int:
        """Index of the token at which the query of CREATE … AS or INSERT INTO begins; ``last`` if there is none."""
        statement = self.statement
        if statement.at(first, "insert", "into") and statement.word(first + 2) != "entity":
            for place in statement.level(first, last):
                opens = statement.kind(place) is TokenType.L_PAREN and statement.word(place + 1) in _QUERIES
                if statement.word(place) in _QUERIES or opens:
                    return place
        if statement.word(first) == "create":
            return next((p + 1 for p in statement.level(first, last) if statement.word(p) == "as"), last)
        return last

    def _head(self, first: int, last: int, indent: int) -> None:
        """CREATE … name (columns) WITH (properties)."""
        statement = self.statement
        words = {statement.word(place) for place in range(first, min(first + 4, last))}
        is_create, column = statement.word(first) == "create", indent + self._length(first, last)
        for place in statement.level(first, last):
            if statement.kind(place) is not TokenType.L_PAREN or place not in statement.closing:
                continue
            closing = statement.closing[place]
            is_with = statement.word(place - 1) == "with"
            several = len(statement.split(place + 1, closing)) > 1
            is_list = is_create and not is_with and bool(words & _RELATIONS)
            is_outside = is_with and several and bool(words & _ONE_PER_LINE)
            too_long = is_with and column > WIDTH
            if is_list or is_outside or too_long or self._has_comment(place, closing + 1):
                self._one_per_line(place, closing, indent)
            if is_list:
                column = indent + self._length(closing, last)

    def _one_per_line(self, opening: int, closing: int, indent: int) -> None:
        for begin, end in self.statement.split(opening + 1, closing):
            self.breaks[begin] = indent + STEP
            self._expression(begin, end, indent + STEP)
        self.breaks[closing] = indent

    # queries

    def _clauses(self, first: int, last: int) -> list[tuple[int, int]]:
        begins = [first, *(place for place in self._begins(first, last) if place != first)]
        return list(zip(begins, [*begins[1:], last], strict=True))

    def _begins(self, first: int, last: int) -> Iterator[int]:
        """Indexes of the tokens that begin clauses."""
        statement, is_with = self.statement, self.statement.word(first) == "with"
        for place in statement.level(first, last):
            word = statement.word(place)
            if word in _SETS or (word in _WITH_BY and statement.word(place + 1) == "by"):
                yield place
            elif word in _SIDES and self._joins(place):
                if statement.word(place - 1) not in _SIDES:
                    yield place
            elif word in _CLAUSES and not (word == "join" and statement.word(place - 1) in _SIDES):
                is_distinct_from = word == "from" and statement.word(place - 1) == "distinct"
                if not is_distinct_from and (word != "values" or not is_with):
                    yield place
            elif word == "query" and statement.word(place + 1) == "with":
                yield place

    def _joins(self, place: int) -> bool:
        while self.statement.word(place) in _SIDES:
            place += 1
        return self.statement.word(place) == "join"

    def _query(self, first: int, last: int, indent: int) -> None:
        if self._is_simple(first, last) and self._fits(first, last, indent):
            return
        for begin, end in self._clauses(first, last):
            if begin != first:
                self.breaks[begin] = indent
            if self.statement.word(begin) == "with":
                self._named_queries(begin, end, indent)
            elif self.statement.word(begin) in _SETS:
                self._after_set(begin, end, indent)
            else:
                self._clause(begin, end, indent)

    def _named_queries(self, first: int, last: int, indent: int) -> None:
        """WITH name AS (…), …"""
        for begin, end in self.statement.split(first, last):
            if begin != first:
                self.breaks[begin] = indent
            for place in self.statement.level(begin, end):
                if self.statement.kind(place) is TokenType.L_PAREN:
                    self._group(place, indent)

    def _after_set(self, first: int, last: int, indent: int) -> None:
        """UNION ALL (…)"""
        for place in self.statement.level(first, last):
            if self.statement.kind(place) is TokenType.L_PAREN and not self._fits(first, last, indent):
                self._group(place, indent)

    def _clause(self, first: int, last: int, indent: int) -> None:
        if self._fits(first, last, indent):
            return
        word = self.statement.word(first)
        keyword = 2 if word in _WITH_BY or self.statement.word(first + 1) == "distinct" else 1
        items = self.statement.split(first + keyword, last)
        if word in _LISTS and len(items) > 1:
            for begin, end in items:
                self.breaks[begin] = indent + STEP
                self._expression(begin, end, indent + STEP)
        else:
            self._expression(first, last, indent)

    # expressions

    def _expression(self, first: int, last: int, indent: int) -> None:
        """Break an expression that begins at ``indent``: at AND and OR first, then inside of its parts."""
        if self._fits(first, last, indent):
            return
        begins = [first, *self._connectors(first, last)]
        parts = list(zip(begins, [*begins[1:], last], strict=True))
        for begin, end in parts:
            if begin != first:
                self.breaks[begin] = indent + STEP
            if not self._fits(begin, end, indent + STEP * (begin != first)):
                self._part(begin, end, indent + STEP * (begin != first))

    def _connectors(self, first: int, last: int) -> Iterator[int]:
        """AND and OR of this level, without the AND of BETWEEN and without conditions of CASE."""
        between = cases = 0
        for place in self.statement.level(first + 1, last):
            word = self.statement.word(place)
            cases += (word == "case") - (word == "end")
            between += word == "between"
            if word == "and" and between:
                between -= 1
            elif word in ("and", "or") and not cases:
                yield place

    def _part(self, first: int, last: int, indent: int) -> None:
        """Break at the parts of a CASE; otherwise inside the brackets that must be broken, or the longest ones."""
        places, closed = list(self.statement.level(first, last)), self.statement.closing
        cases = [place for place in places if self.statement.word(place) in ("case", "when", "else", "end")]
        words = [self.statement.word(place) for place in cases]
        if words.count("case") == 1 and words[:1] == ["case"]:
            for place, word in zip(cases[1:], words[1:], strict=True):
                self.breaks[place] = indent if word == "end" else indent + STEP
            return
        groups = [place for place in places if self.statement.kind(place) in OPENING and place in closed]
        forced = [place for place in groups if self._must_break(place, closed[place] + 1)]
        if not forced and groups:
            forced = [max(groups, key=lambda place: closed[place] - place)]
        for place in forced:
            self._group(place, indent)

    def _group(self, opening: int, indent: int) -> None:
        """Put each item inside of brackets on its own line."""
        closing = self.statement.closing.get(opening)
        if closing is None or closing == opening + 1:
            return
        if self.statement.word(opening + 1) in _QUERIES:
            self.breaks[opening + 1] = indent + STEP
            self._query(opening + 1, closing, indent + STEP)
            self.breaks[closing] = indent
        elif self.statement.word(opening - 1) == "match_recognize":
            self._match(opening, closing, indent)
        else:
            self._one_per_line(opening, closing, indent)

    def _match(self, opening: int, closing: int, indent: int) -> None:
        """The clauses of MATCH_RECOGNIZE."""
        begins = [
            place
            for place in self.statement.level(opening + 1, closing)
            if self.statement.word(place) in ("partition", "order", "measures", "after", "pattern", "within", "define")
        ]
        for begin, end in zip(begins, [*begins[1:], closing], strict=True):
            self.breaks[begin] = indent + STEP
            items = self.statement.split(begin + 1, end)
            if not self._fits(begin, end, indent + STEP) and len(items) > 1:
                for first, last in items:
                    self.breaks[first] = indent + 2 * STEP
                    self._expression(first, last, indent + 2 * STEP)
        self.breaks[closing] = indent
