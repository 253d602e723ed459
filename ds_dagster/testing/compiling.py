"""From a case's SQL to its project, with the real compiler; undeclared stores of the case become stores in memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Diagnostic, Span
from ds_dagster.errors import UserError, error
from ds_dagster.names import QualifiedName, did_you_mean, fold
from ds_dagster.project.load import LoadedProject, compile_texts
from ds_dagster.settings import Overlay, Settings, find_project, load_settings
from ds_dagster.sql.printing import print_statement
from ds_dagster.sql.script import parse_file
from ds_dagster.sql.statements import CreateStore, Origin, Property, WrittenName
from ds_dagster.testing.case import Case, Expectation, ExpectedError, ExpectNow, Failure, Send, SendTogether

_STORES = "stores"
TABLES = ("materialized_view", "table")
"""Kinds of relations that hold rows instead of records."""
TopicKey: TypeAlias = tuple[str, str]
"""Store and entity."""


@dataclass(frozen=True, slots=True)
class CompiledCase:
    """A case with its project, and the failures of its compilation."""

    case: Case
    project: LoadedProject
    failures: tuple[Failure, ...] = ()


def compile_case(case: Case, state: Path) -> CompiledCase:
    """Compile the SQL of a case and compare its mistakes with the expected one.

    Args:
        case: as read.
        state: folder for state.

    Raises:
        UserError: the settings of the project around the case are wrong.
    """
    settings = case_settings(case, state)
    project = compile_texts([*case.texts, *_missing_stores(case)], settings)
    return CompiledCase(case, project, _failures(case, project) or _unknown(case, project))


def expected_relation(project: LoadedProject, expectation: Expectation) -> Relation:
    """The relation that an ``expect`` names: by its qualified name, or by its last parts if these are unique.

    Raises:
        UserError: UNKNOWN_RELATION.
    """
    relations, settings = project.catalog.relations, project.settings
    exact = QualifiedName.parse(expectation.relation, settings.database, settings.schema)
    matches = [exact] if exact in relations else [n for n in relations if str(n).endswith("." + expectation.relation)]
    if len(matches) != 1:
        nearest = did_you_mean(expectation.relation, [name.name for name in relations])
        raise error("UNKNOWN_RELATION", span=expectation.span, name=expectation.relation, nearest=nearest)
    return relations[matches[0]]


def case_settings(case: Case, state: Path) -> Settings:
    """Settings of the project around the case, without its overlay, or defaults without a project. If the project's
    current store is not a store of the case, the first store of the case is current."""
    try:
        settings = load_settings(find_project(case.path.parent.resolve()))
    except UserError as problem:
        if problem.condition != "PROJECT_NOT_FOUND":
            raise
        root = case.path.parent.resolve()
        settings = Settings(root=root, sql=root, state=state)
    store = settings.store
    if case.stores and fold(store) not in case.stores:
        store = case.stores[0]
    return replace(settings, overlay=Overlay(), state=state, store=store)


def _missing_stores(case: Case) -> list[tuple[str, str]]:
    declared = {
        str(statement.name).lower()
        for name, text in case.texts
        for statement in parse_file(name, text).statements
        if isinstance(statement, CreateStore)
    }
    missing = [name for name in case.stores if name not in declared]
    return [(_STORES, ";\n".join(print_statement(_memory_store(name)) for name in missing))] if missing else []


def _memory_store(name: str) -> CreateStore:
    span = Span(_STORES, 1)
    kind = Property("type", "MEMORY", "word", span, span)
    return CreateStore(origin=Origin(span, ""), name=WrittenName((name,), span), properties=(kind,))


def _failures(case: Case, project: LoadedProject) -> tuple[Failure, ...]:
    errors = [diagnostic for diagnostic in project.errors if not diagnostic.caused_by]
    expected = case.error if case.error and not case.error.query else None
    if expected is None:
        return tuple(Failure(diagnostic.text(), diagnostic.span) for diagnostic in errors)
    met = [diagnostic for diagnostic in errors if _is_expected(diagnostic, expected)]
    others = [Failure("another mistake than the expected one: " + d.text(), d.span) for d in errors if d not in met]
    if met:
        return tuple(others)
    place = f" in line {expected.line}" if expected.line else ""
    return (Failure(f"expected the mistake {expected.condition}{place}", expected.span), *others)


def _unknown(case: Case, project: LoadedProject) -> tuple[Failure, ...]:
    """A failure for every ``send`` and ``expect`` that names an unknown relation or topic."""
    if case.error and not case.error.query:
        return ()
    topics = topics_of(project)
    looks = (step.expectations for step in case.steps if isinstance(step, ExpectNow))
    places: list[Send | Expectation] = [*chain.from_iterable(looks), *case.expectations]
    for step in case.steps:
        places += step.sends if isinstance(step, SendTogether) else [step] if isinstance(step, Send) else []
    failures: list[Failure] = []
    for place in sorted(places, key=lambda item: (item.span.line, item.span.column)):
        try:
            if place.topic:
                topic_named(topics, place.topic, place.store, place.span)
            elif isinstance(place, Expectation):
                expected_relation(project, place)
        except UserError as problem:
            failures.append(Failure(str(problem), problem.span))
    return tuple(failures)


def topics_of(project: LoadedProject) -> frozenset[TopicKey]:
    """Topics that the queries of a case read or write, their logs included."""
    relations = [
        relation
        for query in project.queries.values()
        for relation in (*(scan.relation for scan in query.scans), *query.sinks, *query.logs)
    ]
    return frozenset((relation.store, relation.entity) for relation in relations if relation.kind not in TABLES)


def topic_named(topics: Collection[TopicKey], name: str, store: str, span: Span) -> TopicKey:
    """The topic of this name, in ``store`` if one is given.

    Raises:
        UserError: CASE_TOPIC_UNKNOWN, CASE_TOPIC_AMBIGUOUS.
    """
    same_name = sorted(key for key in topics if key[1] == name and store in ("", key[0]))
    if not same_name:
        nearest = did_you_mean(name, {entity for _, entity in topics})
        raise error("CASE_TOPIC_UNKNOWN", span=span, topic=name, nearest=nearest)
    if len(same_name) > 1:
        stores = [key[0] for key in same_name]
        raise error("CASE_TOPIC_AMBIGUOUS", span=span, topic=name, stores=stores, example=stores[0])
    return same_name[0]


def _is_expected(diagnostic: Diagnostic, expected: ExpectedError) -> bool:
    line = diagnostic.span.line if diagnostic.span else None
    return diagnostic.condition == expected.condition and expected.line in (None, line)
