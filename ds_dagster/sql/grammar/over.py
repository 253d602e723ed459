"""The grammar of ``OVER (…)`` and of named windows: ``WINDOW w AS (PARTITION BY … ORDER BY …)``."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.names import did_you_mean
from ds_dagster.sql.hints.mistakes import UnreadableError
from ds_dagster.sql.typetext import TypeParser

OR, AND, NOT, COMPARISON, SUM, PRODUCT = range(1, 7)
"""Precedence of operators, from loose to tight."""
_PARTS = ("partition_by", "order", "spec")


class OverParser(TypeParser):
    """OVER of calls; a window's name is replaced by its definition at the end of the SELECT."""

    def expr(self, level: int = OR) -> exp.Expression:
        """An expression; implemented in ``grammar/expression.py``."""
        raise NotImplementedError

    def identifier(self, role: str) -> exp.Identifier:
        """An identifier node with its position; implemented in ``grammar/expression.py``."""
        raise NotImplementedError

    def at_over(self) -> bool:
        """Whether OVER with a window or its name comes next."""
        next_kind = self.ahead().token_type
        return self.at("over") and next_kind in (TokenType.L_PAREN, TokenType.VAR, TokenType.IDENTIFIER)

    def over(self, call: exp.Expression) -> exp.Expression:
        """``call OVER name`` or ``call OVER ([name] [PARTITION BY …] [ORDER BY …] [frame])``."""
        over = self.next_token()
        self._has_over = True
        if self.at_symbol(TokenType.L_PAREN):
            window = self._window_in_parentheses()
        else:
            window = exp.Window(alias=self.identifier("a window's name"))
        window.set("this", call)
        window.set("over", "OVER")
        window.update_positions(over)
        return window

    def _window_in_parentheses(self) -> exp.Window:
        self.need_symbol(TokenType.L_PAREN, "(")
        is_name = self._curr.token_type in (TokenType.VAR, TokenType.IDENTIFIER) and not self.at_any(_WINDOW_WORDS)
        base = self.identifier("a window's name") if is_name else None
        partition: list[exp.Expression] = []
        if self.take("partition", "by"):
            partition = self.separated(self.expr)
        order = self.order_by() if self.at("order") else None
        frame = self._frame() if self.at("rows") or self.at("range") else None
        self.need_symbol(TokenType.R_PAREN, "')'")
        return exp.Window(partition_by=partition, order=order, spec=frame, alias=base)

    def _frame(self) -> exp.WindowSpec:
        """``{ROWS | RANGE} [BETWEEN] {UNBOUNDED | n | INTERVAL 'n' unit} PRECEDING [AND CURRENT ROW]``."""
        kind = self.next_token().text.upper()
        between = self.take("between")
        start: exp.Expression | str = "CURRENT ROW"
        if not self.take("current", "row"):
            start = "UNBOUNDED" if self.take("unbounded") else self.expr(SUM)
            self.need("preceding")
        if between:
            self.need("and", "current", "row")
        side = None if start == "CURRENT ROW" else "PRECEDING"
        return exp.WindowSpec(kind=kind, start=start, start_side=side, end="CURRENT ROW")

    def window_clause(self) -> dict[str, exp.Window]:
        """``WINDOW name AS (…), …``: name → window; empty if there is no such clause."""
        windows: dict[str, exp.Window] = {}
        if self.take("window"):
            self._named_window(windows)
            while self.take_symbol(TokenType.COMMA):
                self._named_window(windows)
        return windows

    def replace_names(self, tree: exp.Select, windows: dict[str, exp.Window]) -> None:
        """Replace window names in the OVER clauses of a SELECT by their definitions."""
        if not self._has_over:
            return
        for node in tree.walk(prune=lambda node: isinstance(node, exp.Query) and node is not tree):
            if isinstance(node, exp.Window):
                self._replace_name(node, windows)

    def _named_window(self, windows: dict[str, exp.Window]) -> None:
        token = self._curr
        name = self.identifier("a window's name").name
        if name in windows:
            raise self.refuse("CLAUSE_TWICE", token, clause=f"WINDOW {name}")
        self.need("as")
        window = self._window_in_parentheses()
        self._replace_name(window, windows)
        windows[name] = window

    def _replace_name(self, window: exp.Window, windows: dict[str, exp.Window]) -> None:
        """Copy the parts of the named window into ``window``; a part that both have is refused."""
        name = window.args.get("alias")
        if name is None:
            return
        base = windows.get(name.name)
        if base is None:
            raise self._unknown_window(name, list(windows))
        for part in _PARTS:
            base_clause = base.args.get(part)
            if base_clause and window.args.get(part):
                clause = f"{part.partition('_')[0].upper()} of window {name.name}"
                raise self.refuse("CLAUSE_TWICE", self._token_of(name), clause=clause)
            if base_clause:
                copies = [item.copy() for item in base_clause] if isinstance(base_clause, list) else base_clause.copy()
                window.set(part, copies)
        window.set("alias", None)

    def _unknown_window(self, name: exp.Identifier, names: list[str]) -> UnreadableError:
        nearest = did_you_mean(name.name, names)
        return self.refuse("WINDOW_UNKNOWN", self._token_of(name), name=name.name, nearest=nearest)

    def _token_of(self, node: exp.Identifier) -> Token:
        return next(token for token in self._tokens if token.start == node.meta["start"])

    def separated(self, item: Callable[[], exp.Expression]) -> list[exp.Expression]:
        """Items with commas between them, at least one."""
        items = [item()]
        while self.take_symbol(TokenType.COMMA):
            items.append(item())
        return items

    def order_by(self) -> exp.Order:
        """``ORDER BY e [ASC|DESC] [NULLS FIRST|LAST], …``."""
        self.need("order", "by")
        return exp.Order(expressions=self.separated(self._ordered))

    def _ordered(self) -> exp.Expression:
        this = self.expr()
        descending = self.take("desc")
        if not descending:
            self.take("asc")
        first = None
        if self.take("nulls", "first"):
            first = True
        elif self.take("nulls", "last"):
            first = False
        nulls_first = first if first is not None else not descending
        return exp.Ordered(this=this, desc=descending or None, nulls_first=nulls_first)


_WINDOW_WORDS = frozenset({"partition", "order", "rows", "range"})
