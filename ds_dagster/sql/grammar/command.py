"""The grammar of statements that ``ds sql`` executes immediately: LIST, DESCRIBE, PRINT, statements about entities,
TERMINATE, RESTART. In files of a project they are refused or skipped.

The syntax of GENERATE COLUMNS is our own, since none is published; it names an entity like the other statements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.names import did_you_mean
from ds_dagster.sql.commands import (
    Command,
    ControlQuery,
    DescribeEntity,
    DescribeQuery,
    DescribeRelation,
    DescribeStatement,
    DescribeStore,
    DropEntity,
    GenerateColumns,
    InsertIntoEntity,
    ListObjects,
    PrintEntity,
    QueryPart,
    UpdateEntity,
)
from ds_dagster.sql.parser import MAX_ENTITY_PARTS, DeltaStreamParser
from ds_dagster.sql.statements import Origin, Property, Statement, WrittenName

LISTABLE = (
    "databases", "schemas", "relations", "stores", "entities", "queries", "functions", "function_sources",
    "schema_registries", "descriptors", "descriptor_sources", "secrets", "compute_pools",
)  # fmt: skip
LISTED_AS: dict[str, str] = {
    **dict.fromkeys(
        ("tables", "views", "materialized_views", "streams", "changelogs", "sources", "sinks"), "relations"
    ),
    **dict.fromkeys(("topics", "files"), "entities"),
    **dict.fromkeys(("jobs", "processlist"), "queries"),
}
"""Word of another system → the word of our LIST."""
REFUSED_LISTS: dict[str, str] = {
    "roles": "HOSTED_ROLES",
    "users": "HOSTED_USERS",
    "invitations": "HOSTED_USERS",
    "organizations": "HOSTED_ORGANIZATION",
    "api_tokens": "HOSTED_TOKEN",
    "metrics": "HOSTED_INTEGRATION",
    "security": "HOSTED_INTEGRATION",
}
"""Word after LIST that is refused → condition."""
QUERY_PARTS: tuple[QueryPart, ...] = ("metrics", "events", "state")
DESCRIBED_STATEMENTS = ("create", "insert")
DEFINING = (
    "stream", "changelog", "table", "materialized", "relation", "store", "database", "schema", "schema_registry",
    "function", "function_source", "compute_pool",
)  # fmt: skip
"""Words after DROP and ALTER that would change a project's definition: refused in the shell."""
FROM_BEGINNING, LIMIT, KEY, SAMPLES = "from_beginning", "limit", "key", "samples"
MAX_SAMPLES = 10_000


class CommandParser(DeltaStreamParser):
    """The grammar of ``ds sql``."""

    def command(self, origin: Origin) -> Command | Statement:
        """The record of one statement: a command, or a statement of a project's definition.

        Raises:
            UnreadableError: the statement cannot be read.
        """
        parse = next((handler for words, handler in _COMMANDS if self.at_words(*words)), None)
        if parse is None:
            self._refuse_definition()
            return self.statement(origin)
        parsed = parse(self, origin)
        self.nothing_left()
        return parsed

    def _refuse_definition(self) -> None:
        verb = self._curr.text
        if verb in ("drop", "alter") and self.ahead().text in DEFINING:
            words = f"{verb} {self.ahead().text}".upper()
            raise self.refuse("DEFINITION_IN_SHELL", statement=words, remedy="remove or change its CREATE statement")

    def _list(self, origin: Origin) -> Command:
        verb = self.next_token().text.upper()
        token = self._curr
        if self.ended or token.token_type is not TokenType.VAR:
            raise self.expected(f"what to {verb}")
        if token.text in REFUSED_LISTS:
            statement = f"{verb} {token.text.upper()}"
            raise self.refuse(REFUSED_LISTS[token.text], statement=statement, found=statement)
        if token.text not in LISTABLE:
            near = LISTED_AS.get(token.text) or did_you_mean(token.text, LISTABLE)
            raise self.refuse("LIST_UNKNOWN", word=self.found(), nearest=near.upper())
        self._advance()
        place, store = self._places(token.text)
        return ListObjects(origin=origin, things=token.text, place=place, store=store)

    def _places(self, things: str) -> tuple[WrittenName | None, WrittenName | None]:
        place: WrittenName | None = None
        if things == "entities" and self.at("in") and not self.at_words("in", "store"):
            self.need("in")
            place = self._path()
        elif things == "schemas" and self.at("in"):
            self.need("in")
            self.take("database")
            place = self.simple_name("a database's name")
        elif things == "relations" and self.at("in"):
            self.need("in")
            self.take("schema")
            place = self.written_name("a schema's name", 2)
        return place, self._store() if things == "entities" else None

    def _describe(self, origin: Origin) -> Command:
        self.need("describe")
        if self._curr.text in DESCRIBED_STATEMENTS and self._curr.token_type is TokenType.VAR:
            start = self._curr.start
            inner = Origin(self.source.span(start, self._tokens[-1].end + 1), self._text_from(start))
            return DescribeStatement(origin=origin, statement=self.statement(self._in_context(inner, origin)))
        for word, parse in _DESCRIBES.items():
            if self.at(word) and not self.ahead_is_end():
                self._advance()
                return parse(self, origin)
        if self.ended:
            raise self.expected("what to DESCRIBE")
        self._refuse_hosted()
        return DescribeRelation(origin=origin, name=self.written_name("a relation's name"))

    def _refuse_hosted(self) -> None:
        refusal = self._refused_from(self._index - 1)
        if refusal:
            raise refusal

    def _refused_from(self, index: int) -> Exception | None:
        here = self._index
        self._advance(index - here)
        refusal = self._refused_form()
        self._advance(here - index)
        return refusal

    def ahead_is_end(self) -> bool:
        """Whether nothing follows the next token: ``DESCRIBE store`` names a relation."""
        return self._index + 1 >= self._tokens_size

    def _text_from(self, start: int) -> str:
        return self.source.text[start : self._tokens[-1].end + 1]

    @staticmethod
    def _in_context(inner: Origin, outer: Origin) -> Origin:
        return Origin(inner.span, inner.text, outer.comment, outer.context)

    def _describe_store(self, origin: Origin) -> Command:
        return DescribeStore(origin=origin, name=self.simple_name("a store's name"))

    def _describe_relation(self, origin: Origin) -> Command:
        columns = self.at("columns") and not self.ahead_is_end()
        if columns:
            self._advance()
        return DescribeRelation(origin=origin, name=self.written_name("a relation's name"), columns=columns)

    def _describe_query(self, origin: Origin) -> Command:
        part: QueryPart = ""
        if not self.ahead_is_end():
            part = next((name for name in QUERY_PARTS if self.take(name)), "")
        return DescribeQuery(origin=origin, name=self.simple_name("a query's name"), part=part)

    def _describe_entity(self, origin: Origin) -> Command:
        return DescribeEntity(origin=origin, path=self._path(), store=self._store())

    def _print(self, origin: Origin) -> Command:
        self.need("print")
        if not self.take("entity"):
            self.need("topic")
        path, store = self._path(), self._store()
        options = self._options(FROM_BEGINNING, LIMIT)
        beginning = options.get(FROM_BEGINNING, False)
        limit = self._count(options, LIMIT)
        return PrintEntity(origin=origin, path=path, store=store, from_beginning=bool(beginning), limit=limit)

    def _update_entity(self, origin: Origin) -> Command:
        self.need("update", "entity")
        path, store = self._path(), self._store()
        return UpdateEntity(origin=origin, path=path, store=store, properties=self.with_properties())

    def _drop_entity(self, origin: Origin) -> Command:
        self.need("drop", "entity")
        return DropEntity(origin=origin, path=self._path(), store=self._store())

    def _insert_entity(self, origin: Origin) -> Command:
        self.need("insert", "into", "entity")
        path, store = self._path(), self._store()
        self.need("value")
        self.need_symbol(TokenType.L_PAREN, "(")
        value = None if self.take("null") else self._quoted("a JSON text in single quotes, or NULL").text
        self.need_symbol(TokenType.R_PAREN, ")")
        options = self._options(KEY)
        key = options.get(KEY)
        return InsertIntoEntity(
            origin=origin, path=path, store=store, value=value, key=None if key is None else str(key)
        )

    def _generate_columns(self, origin: Origin) -> Command:
        self.need("generate", "columns")
        self.take("for")
        self.need("entity")
        path, store = self._path(), self._store()
        samples = self._count(self._options(SAMPLES), SAMPLES)
        return GenerateColumns(origin=origin, path=path, store=store, samples=samples)

    def _terminate(self, origin: Origin) -> Command:
        self.need("terminate", "query")
        return ControlQuery(origin=origin, verb="terminate", name=self.simple_name("a query's name"))

    def _restart(self, origin: Origin) -> Command:
        self.need("restart", "query")
        return ControlQuery(origin=origin, verb="restart", name=self.simple_name("a query's name"))

    def _path(self) -> WrittenName:
        return self.written_name("an entity's path", limit=MAX_ENTITY_PARTS)

    def _store(self) -> WrittenName | None:
        return self.simple_name("a store's name") if self.take("in", "store") else None

    def _quoted(self, what: str) -> Token:
        if self._curr.token_type is not TokenType.STRING:
            raise self.expected(what)
        self._advance()
        return self._prev

    def _options(self, *allowed: str) -> dict[str, Any]:
        """``WITH ('name' [= value], …)``: a name without a value is true; names that are not allowed are refused."""
        if not self.at("with"):
            return {}
        self.need("with")
        options: dict[str, Any] = {}
        for token, value in self.listed(self._option):
            name = token.text.lower()
            if name not in allowed:
                raise self.refuse("OPTION_UNKNOWN", token, name=token.text, known=[f"'{other}'" for other in allowed])
            options[name] = value
        return options

    def _option(self) -> tuple[Token, Any]:
        token = self._quoted("an option's name in quotes")
        if not self.at_symbol(TokenType.EQ):
            return token, True
        self._advance(-1)
        item: Property = self._property()
        return token, item.value

    def _count(self, options: dict[str, Any], name: str) -> int | None:
        value = options.get(name)
        if value is None:
            return None
        text = str(value)
        if isinstance(value, bool) or not text.isdigit() or not 0 < int(text) <= MAX_SAMPLES:
            allowed = f"a whole number from 1 to {MAX_SAMPLES}"
            raise self.refuse("PROPERTY_INVALID", self._prev, name=name, value=value, allowed=allowed)
        return int(text)


_COMMANDS: tuple[tuple[tuple[str, ...], Callable[[CommandParser, Origin], Command]], ...] = (
    (("list",), CommandParser._list),
    (("show",), CommandParser._list),
    (("describe",), CommandParser._describe),
    (("print",), CommandParser._print),
    (("update", "entity"), CommandParser._update_entity),
    (("drop", "entity"), CommandParser._drop_entity),
    (("insert", "into", "entity"), CommandParser._insert_entity),
    (("generate", "columns"), CommandParser._generate_columns),
    (("terminate",), CommandParser._terminate),
    (("restart",), CommandParser._restart),
)
"""First words → the method that reads the rest."""
_DESCRIBES: dict[str, Callable[[CommandParser, Origin], Command]] = {
    "store": CommandParser._describe_store,
    "relation": CommandParser._describe_relation,
    "query": CommandParser._describe_query,
    "entity": CommandParser._describe_entity,
    "topic": CommandParser._describe_entity,
}
