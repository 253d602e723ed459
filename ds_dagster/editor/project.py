"""A project as an editor has it: its files, with the texts of open buffers in place of those on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from ds_dagster.catalog.relation import Relation
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.plan.query import Part
from ds_dagster.project.load import LoadedProject, compile_texts, read_texts
from ds_dagster.settings import find_project, load_settings


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A compiled project and the texts it was compiled from, by file name.

    Attributes:
        root: folder of the project.
        texts: file name, relative to the project where possible → text.
        loaded: the result; None if the settings are wrong.
        diagnostics: mistakes and warnings, those of questions included.
    """

    root: Path
    texts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    loaded: LoadedProject | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    def relation(self, path: tuple[str, ...]) -> Relation | None:
        """The relation of a name as written, folded: its full name, or the last part of its name if it is unique."""
        if self.loaded is None or len(path) > 3:
            return None
        settings, relations = self.loaded.settings, self.loaded.catalog.relations
        name = QualifiedName.parse(".".join(path), settings.database, settings.schema)
        if name in relations:
            return relations[name]
        same = [other for other in relations if other.name == path[-1]] if len(path) == 1 else []
        return relations[same[0]] if len(same) == 1 else None

    def part_at(self, file: str, line: int) -> Part | None:
        """The part of a query whose statement contains a line (from 1) of a file."""
        if self.loaded is None:
            return None
        parts = (part for query in self.loaded.queries.values() for part in query.parts)
        return next((part for part in parts if part.statement.origin.span.has_line(file, line)), None)


def root_of(path: Path) -> Path | None:
    """The project that a file belongs to: its SQL folder contains the file. None if there is none. With wrong settings
    it is the nearest project: then these are the mistake to show."""
    try:
        root = find_project(path.parent)
    except DsError:
        return None
    try:
        return root if path.is_relative_to(load_settings(root).sql) else None
    except DsError:
        return root


def file_name(root: Path, path: Path) -> str:
    """The name of a file in spans."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def compiled(root: Path, buffers: Mapping[str, str]) -> Snapshot:
    """Compile a project.

    Args:
        root: folder of the project.
        buffers: file name → text of an open buffer; of files that are not saved yet too.
    """
    from ds_dagster.questions.checking import question_mistakes

    try:
        settings = load_settings(root)
    except DsError as problem:
        return Snapshot(root, dict(buffers), None, (problem.diagnostic(),))
    on_disk, unreadable = read_texts(settings)
    texts = dict(sorted({**dict(on_disk), **buffers}.items()))
    unread = tuple(mistake for mistake in unreadable if mistake.span is None or mistake.span.file not in buffers)
    try:
        loaded = compile_texts(tuple(texts.items()), settings)
        mistakes = question_mistakes(loaded) if loaded.asked else ()
    except DsError as problem:
        return Snapshot(root, texts, None, (problem.diagnostic(),))
    shown = (*unread, *loaded.diagnostics, *mistakes)
    return Snapshot(root, texts, loaded, tuple(replace(mistake, fragment="") for mistake in shown))
