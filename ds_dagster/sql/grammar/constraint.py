"""Items of a column list other than columns: the primary key, and
``CONSTRAINT name CHECK (condition) ON VIOLATION …``."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from ds_dagster.sql.grammar.query import QueryParser
from ds_dagster.sql.statements import ConstraintDefinition, OnViolation, WrittenName

ON_VIOLATION: dict[tuple[str, ...], OnViolation] = {
    ("warn",): "warn",
    ("drop", "row"): "drop",
    ("drop",): "drop",
    ("fail", "update"): "fail",
    ("fail",): "fail",
    ("quarantine",): "quarantine",
}
"""Words after ON VIOLATION → the action; the longer forms (of Databricks) come first."""
_ITEMS = frozenset(("check", "expect", "primary", "unique", "foreign"))
"""Words after the name of a constraint, in this dialect or in others."""


class ConstraintParser(QueryParser):
    """The grammar of constraints of relations."""

    def at_constraint(self) -> bool:
        """Whether a constraint comes next, not a column named ``check`` or ``constraint``."""
        if self.at("check"):
            return self.ahead().token_type is TokenType.L_PAREN
        return self.at("constraint") and self.ahead(2).text in _ITEMS

    def constraint(self, constraints: dict[str, ConstraintDefinition]) -> None:
        """Read a constraint into ``constraints``, by name."""
        if self.at("check"):
            raise self.refuse("CONSTRAINT_WITHOUT_NAME")
        self.need("constraint")
        token = self.name_token("a constraint's name")
        name = self.folded(token)
        if not self.take("check"):
            raise self.refuse("CONSTRAINT_UNSUPPORTED", word=self.found(), name=name)
        self.need_symbol(TokenType.L_PAREN, "(")
        first = self._curr
        condition = self.expr()
        condition_span = self.span(first, self._prev)
        self.need_symbol(TokenType.R_PAREN, ")")
        constraint = ConstraintDefinition(name, condition, self._on_violation(), self.span(token), condition_span)
        other = constraints.setdefault(name, constraint)
        if other is not constraint:
            self.note("CONSTRAINT_DEFINED_TWICE", token, related=(other.span,), name=name, other=other.span)

    def primary_key(self) -> tuple[WrittenName, ...]:
        """``PRIMARY KEY (column, …) [NOT ENFORCED]``."""
        self.need("primary", "key")
        names = tuple(self.listed(lambda: self.simple_name("a column's name")))
        self.take("not", "enforced")
        return names

    def _on_violation(self) -> OnViolation:
        """The action; FAIL by default, as for a CHECK of standard SQL."""
        if not self.take("on"):
            return "fail"
        self.need("violation")
        for words, action in ON_VIOLATION.items():
            if self.take(*words):
                return action
        raise self.expected("WARN, DROP, FAIL or QUARANTINE")
