"""The grammar of statements: tokens of one statement → its record. Statements that are not in these tables are
refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ds_dagster.names import did_you_mean
from ds_dagster.sql.grammar.constraint import ConstraintParser
from ds_dagster.sql.grammar.expression import is_query_word
from ds_dagster.sql.hints.refusals import refused
from ds_dagster.sql.lowering import refuse_in_persistent_query
from ds_dagster.sql.source import SourceText
from ds_dagster.sql.statements import (
    ColumnDefinition,
    ConstraintDefinition,
    CreateAsSelect,
    CreateComputePool,
    CreateDatabase,
    CreateDescriptorSource,
    CreateEntity,
    CreateFunction,
    CreateFunctionSource,
    CreateRelation,
    CreateSchema,
    CreateSchemaRegistry,
    CreateSecret,
    CreateStore,
    InsertInto,
    Interactive,
    Origin,
    Property,
    RelationKind,
    SelectBody,
    Statement,
    UpdateConnection,
    Use,
    WrittenName,
)

_Named = (
    CreateStore
    | CreateSchemaRegistry
    | CreateSecret
    | CreateDescriptorSource
    | CreateFunctionSource
    | CreateComputePool
)
USABLE: tuple[Literal["database", "schema", "store"], ...] = ("database", "schema", "store")
UPDATABLE: tuple[Literal["store", "schema_registry"], ...] = ("store", "schema_registry")
RELATION_KINDS: dict[tuple[str, ...], RelationKind] = {
    ("stream",): "stream",
    ("changelog",): "changelog",
    ("table",): "table",
    ("materialized", "view"): "materialized_view",
}
SHOWN_KINDS: dict[RelationKind, str] = {kind: " ".join(words).upper() for words, kind in RELATION_KINDS.items()}
VIRTUAL_KINDS: tuple[RelationKind, ...] = ("stream", "changelog")
KEYED_KINDS: frozenset[RelationKind] = frozenset({"changelog", "table"})
MAX_ENTITY_PARTS = 8


class DeltaStreamParser(ConstraintParser):
    """The whole grammar. One instance parses any number of statements, one after the other."""

    declares_views = False
    """CREATE MATERIALIZED VIEW may have a list of columns instead of a SELECT (see ``script.parse_file``)."""

    def begin(self, source: SourceText, tokens: tuple[Token, ...]) -> None:
        """Start with the tokens of one statement; forget the previous statement."""
        super().begin(source, tokens)
        self.kind: RelationKind | None = None
        self.name: WrittenName | None = None

    def statement(self, origin: Origin) -> Statement:
        """The record of the statement.

        After a refusal ``kind`` and ``name`` of the parser hold the parts that were read; ``notes`` holds mistakes that
        did not stop it.

        Raises:
            UnreadableError: the statement cannot be read.
        """
        first = self._curr
        parse = _STATEMENTS.get(first.text) if first.token_type is TokenType.VAR else None
        if parse is None:
            raise self._unknown_statement()
        parsed = parse(self, origin)
        self.nothing_left()
        return parsed

    def nothing_left(self) -> None:
        """Refuse tokens after the end of the statement."""
        if not self.ended:
            self._refuse_clause()
            raise self.refuse("SYNTAX_UNEXPECTED", found=self.found())

    def _unknown_statement(self) -> Exception:
        refusal = self._refused_form()
        if refusal:
            return refusal
        if self._curr.token_type is not TokenType.VAR:
            return self.expected("a statement")
        return self.refuse(
            "STATEMENT_UNKNOWN", word=self.found(), nearest=did_you_mean(self._curr.text, _STATEMENTS).upper()
        )

    def _refused_form(self) -> Exception | None:
        words = []
        for token in self._tokens[self._index : self._index + 4]:
            if token.token_type is not TokenType.VAR:
                break
            words.append(token.text)
        form = refused(tuple(words))
        if form is None:
            return None
        shown = " ".join(form[0]).upper()
        return self.refuse(form[1], statement=shown, found=shown)

    # CREATE

    def _create(self, origin: Origin) -> Statement:
        refusal = self._refused_form()
        if refusal:
            raise refusal
        self.need("create")
        if self.take("virtual"):
            return self._create_virtual(origin)
        for words, kind in RELATION_KINDS.items():
            if self.take(*words):
                return self._create_relation(origin, kind)
        parse = _CREATES.get(self._curr.text) if self._curr.token_type is TokenType.VAR else None
        if parse is None:
            if self._curr.token_type is not TokenType.VAR:
                raise self.expected("what to create")
            kinds = [*_CREATES, *(" ".join(words) for words in RELATION_KINDS)]
            raise self.refuse("CREATE_UNKNOWN", word=self.found(), nearest=did_you_mean(self._curr.text, kinds).upper())
        self._advance()
        return parse(self, origin)

    def _if_not_exists(self) -> bool:
        if not self.at("if"):
            return False
        self.need("if", "not", "exists")
        return True

    def _create_named(self, origin: Origin, record: type[_Named], what: str) -> Statement:
        """A statement that has a name and properties and nothing else."""
        if_not_exists = self._if_not_exists()
        name = self.simple_name(what)
        properties = self._optional_with() if record is CreateComputePool else self.with_properties()
        return record(origin=origin, name=name, properties=properties, if_not_exists=if_not_exists)

    def _create_function(self, origin: Origin) -> Statement:
        if_not_exists = self._if_not_exists()
        name = self.simple_name("a function's name")
        self.need_symbol(TokenType.L_PAREN, "(")
        arguments: dict[str, ColumnDefinition] = {}
        while not self.at_symbol(TokenType.R_PAREN):
            self._column_definition(arguments)
            if not self.take_symbol(TokenType.COMMA):
                break
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        self.need("returns")
        returns = self.data_type()
        self.need("language")
        language = self.simple_name("a language")
        return CreateFunction(
            origin=origin,
            name=name,
            arguments=tuple(arguments.values()),
            returns=returns,
            language=str(language).lower(),
            properties=self.with_properties(),
            if_not_exists=if_not_exists,
        )

    def _create_database(self, origin: Origin) -> Statement:
        if_not_exists = self._if_not_exists()
        return CreateDatabase(origin=origin, name=self.simple_name("a database's name"), if_not_exists=if_not_exists)

    def _create_schema(self, origin: Origin) -> Statement:
        if_not_exists = self._if_not_exists()
        name = self.written_name("a schema's name", limit=2)
        database = None
        if len(name.parts) == 2:
            database, name = WrittenName(name.parts[:1], name.span), WrittenName(name.parts[1:], name.span)
        elif self.take("in", "database"):
            database = self.simple_name("a database's name")
        return CreateSchema(origin=origin, name=name, database=database, if_not_exists=if_not_exists)

    def _create_entity(self, origin: Origin) -> Statement:
        path = self.written_name("an entity's path", limit=MAX_ENTITY_PARTS)
        store = self.simple_name("a store's name") if self.take("in", "store") else None
        return CreateEntity(origin=origin, path=path, store=store, properties=self._optional_with())

    def _optional_with(self) -> tuple[Property, ...]:
        return self.with_properties() if self.at("with") else ()

    def _create_relation(self, origin: Origin, kind: RelationKind) -> Statement:
        self.kind = kind
        if_not_exists = self._if_not_exists()
        self.name = name = self.written_name("a relation's name")
        listed = self._curr if self.at_symbol(TokenType.L_PAREN) else None
        columns, key, constraints = self._columns() if listed else ((), (), ())
        properties = self._optional_with()
        if self.take("as"):
            if columns:
                raise self.refuse("COLUMNS_AND_SELECT", listed, name=name)
            return CreateAsSelect(
                origin=origin,
                kind=kind,
                name=name,
                body=self._persistent_body(),
                properties=properties,
                if_not_exists=if_not_exists,
                constraints=constraints,
            )
        if not listed and not properties:
            raise self.expected("'(', WITH or AS")
        if kind == "materialized_view" and not (listed and self.declares_views):
            raise self.refuse("VIEW_WITHOUT_SELECT", name=name)
        return CreateRelation(
            origin=origin,
            kind=kind,
            name=name,
            columns=columns,
            primary_key=key,
            properties=properties,
            if_not_exists=if_not_exists,
            constraints=constraints,
        )

    def _create_virtual(self, origin: Origin) -> Statement:
        """A virtual relation of an application (without an entity): STREAM or CHANGELOG, a name and a SELECT."""
        kind = next((kind for kind in VIRTUAL_KINDS if self.take(kind)), None)
        if kind is None:
            raise self.expected("STREAM or CHANGELOG")
        self.kind = kind
        self.name = name = self.written_name("a relation's name")
        if not origin.application:
            raise self.refuse("VIRTUAL_OUTSIDE_APPLICATION", self._tokens[0], name=name)
        if self.at("with"):
            raise self.refuse("VIRTUAL_PROPERTIES", name=name)
        self.need("as")
        return CreateAsSelect(origin=origin, kind=kind, name=name, body=self._persistent_body(), virtual=True)

    def _columns(
        self,
    ) -> tuple[tuple[ColumnDefinition, ...], tuple[WrittenName, ...], tuple[ConstraintDefinition, ...]]:
        opening = self.need_symbol(TokenType.L_PAREN, "(")
        if self.at_symbol(TokenType.R_PAREN):
            raise self.refuse("COLUMN_LIST_EMPTY", opening, name=self.name)
        columns: dict[str, ColumnDefinition] = {}
        constraints: dict[str, ConstraintDefinition] = {}
        key: tuple[WrittenName, ...] = ()
        key_token: Token | None = None
        while True:
            if self.at_words("primary", "key") and self.ahead(2).token_type is TokenType.L_PAREN:
                if key_token:
                    raise self.refuse("PRIMARY_KEY_DUPLICATE", name=self.name, other=self.span(key_token))
                key_token, key = self._curr, self.primary_key()
            elif self.at_constraint():
                self.constraint(constraints)
            else:
                self._column_definition(columns)
            if not self.take_symbol(TokenType.COMMA):
                break
        self.need_symbol(TokenType.R_PAREN, "',' or ')'")
        if key or not constraints:
            self._check_key(opening, key_token, columns)
        return tuple(columns.values()), key, tuple(constraints.values())

    def _check_key(self, opening: Token, key: Token | None, columns: dict[str, ColumnDefinition]) -> None:
        kind = self.kind or "stream"
        if not columns:
            raise self.refuse("COLUMN_LIST_EMPTY", opening, name=self.name)
        if key and kind not in KEYED_KINDS:
            self.note("PRIMARY_KEY_NOT_ALLOWED", key, kind=SHOWN_KINDS[kind], name=self.name)

    def _column_definition(self, columns: dict[str, ColumnDefinition]) -> None:
        token = self.name_token("a column's name")
        name = self.folded(token)
        type_ = self.column_type()
        nullable = not self.take("not", "null")
        if self.take("comment"):
            self.need_symbol(TokenType.STRING, "a text in quotes")
        if self.at_words("primary", "key"):
            raise self.refuse("PRIMARY_KEY_INLINE", column=name)
        if self._curr.token_type is TokenType.VAR:
            raise self.refuse("COLUMN_CONSTRAINT_UNSUPPORTED", constraint=self.found())
        column = ColumnDefinition(name, type_, nullable, self.span(token))
        first = columns.setdefault(name, column)
        if first is not column:
            self.note("COLUMN_DEFINED_TWICE", token, related=(first.span,), name=name, other=first.span)

    # UPDATE, INSERT, USE, questions

    def _update(self, origin: Origin) -> Statement:
        for what in UPDATABLE:
            if self.take("update", what):
                name = self.simple_name(f"a {what}'s name")
                return UpdateConnection(origin=origin, what=what, name=name, properties=self.with_properties())
        raise self._unknown_statement()

    def _insert(self, origin: Origin) -> Statement:
        refusal = self._refused_form()
        if refusal:
            raise refusal
        self.need("insert", "into")
        self.name = name = self.written_name("a relation's name")
        columns: list[WrittenName] = []
        nested = is_query_word(self.ahead()) or self.ahead().token_type is TokenType.L_PAREN
        if self.at_symbol(TokenType.L_PAREN) and not nested:
            columns = self.listed(lambda: self.simple_name("a column's name"))
        if self.at("values") or self.at("value"):
            raise self.refuse("INSERT_VALUES_UNSUPPORTED", name=name)
        return InsertInto(origin=origin, target=name, body=self._persistent_body(), columns=tuple(columns))

    def _persistent_body(self) -> SelectBody:
        body = self.select_body()
        self.nothing_left()
        if self._finite:
            self.notes.extend(refuse_in_persistent_query(body.tree, self.source))
        return body

    def _use(self, origin: Origin) -> Statement:
        refusal = self._refused_form()
        if refusal:
            raise refusal
        self.need("use")
        for what in USABLE:
            if self.take(what):
                return Use(
                    origin=origin, what=what, name=self.written_name(f"a {what}'s name", 2 if what == "schema" else 1)
                )
        raise self.expected("DATABASE, SCHEMA or STORE")

    def _select(self, origin: Origin) -> Statement:
        what = "VALUES" if self.at("values") else "SELECT"
        return Interactive(origin=origin, what=what, body=self.select_body())

    def _question(self, origin: Origin) -> Statement:
        refusal = self._refused_form()
        if refusal:
            raise refusal
        what = self.next_token().text.upper()
        if self.ended:
            raise self.expected(f"what to {what}")
        self._advance(self._tokens_size - self._index)
        return Interactive(origin=origin, what=what)

    # called by sqlglot (sqlglot.parse_one, exp.select(...).where(...))

    def _parse_statement(self) -> exp.Expression:
        if is_query_word(self._curr):
            return self.query()
        return self.expr()


_STATEMENTS: dict[str, Callable[[DeltaStreamParser, Origin], Statement]] = {
    "create": DeltaStreamParser._create,
    "update": DeltaStreamParser._update,
    "insert": DeltaStreamParser._insert,
    "use": DeltaStreamParser._use,
    "select": DeltaStreamParser._select,
    "with": DeltaStreamParser._select,
    "values": DeltaStreamParser._select,
    "print": DeltaStreamParser._question,
    "list": DeltaStreamParser._question,
    "show": DeltaStreamParser._question,
    "describe": DeltaStreamParser._question,
}
_CREATES: dict[str, Callable[[DeltaStreamParser, Origin], Statement]] = {
    "store": partial(DeltaStreamParser._create_named, record=CreateStore, what="a store's name"),
    "schema_registry": partial(
        DeltaStreamParser._create_named, record=CreateSchemaRegistry, what="a schema registry's name"
    ),
    "secret": partial(DeltaStreamParser._create_named, record=CreateSecret, what="a secret's name"),
    "descriptor_source": partial(
        DeltaStreamParser._create_named, record=CreateDescriptorSource, what="a descriptor source's name"
    ),
    "function_source": partial(
        DeltaStreamParser._create_named, record=CreateFunctionSource, what="a function source's name"
    ),
    "function": DeltaStreamParser._create_function,
    "compute_pool": partial(DeltaStreamParser._create_named, record=CreateComputePool, what="a compute pool's name"),
    "database": DeltaStreamParser._create_database,
    "schema": DeltaStreamParser._create_schema,
    "entity": DeltaStreamParser._create_entity,
}
