"""Schema registries from the command line: ``ds schemas`` and what ``ds check --online`` asks them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from ds_dagster.catalog.avro import difference, key_part, parse_avro, sink_schema, value_part
from ds_dagster.catalog.builder import subjects_to_record
from ds_dagster.catalog.recorded import recorded_path, recorded_text
from ds_dagster.catalog.relation import Column, Relation
from ds_dagster.catalog.schema_registry import RegistryDefinition
from ds_dagster.cli.environment import resolver
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of, table
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, error
from ds_dagster.project import Project, read_texts
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_file
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.schema_registry import SchemaRegistry

Wanted = Mapping[tuple[str, str], tuple[RegistryDefinition, str]]


@click.command("schemas")
@project_option
@json_option
def schemas_command(project: Path | None, as_json: bool) -> int:
    """Copy the schemas of relations without a column list from their registries into the project's folder schemas/."""
    settings = settings_of(project, quiet=as_json)
    rows: list[dict[str, object]] = []
    for (name, subject), (registry, relation) in _wanted(settings).items():
        path = recorded_path(settings.root, name, subject)
        text = _newest(settings, registry, subject, relation)
        known = recorded_text(path)
        state = "new" if known is None else "changed" if known != text else "unchanged"
        if state != "unchanged":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        told = difference(known, text) if known is not None and state == "changed" else ""
        file = path.relative_to(settings.root).as_posix()
        rows.append({"relation": relation, "subject": subject, "file": file, "state": state, "difference": told})
    if as_json:
        emit_json(rows)
    elif rows:
        table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        note("every relation lists its columns: there is nothing to copy")
    return 0


def _wanted(settings: Settings) -> Wanted:
    texts, _ = read_texts(settings)
    return subjects_to_record([parse_file(name, text) for name, text in texts], settings, KINDS)


def _newest(settings: Settings, registry: RegistryDefinition, subject: str, relation: str) -> str:
    with closing(_connected(settings, registry)) as asked:
        latest = asked.latest(subject)
    if latest is None:
        raise error("SCHEMA_MISSING", registry=registry.name, subject=subject, relation=relation)
    return json.dumps(json.loads(latest.schema), indent=2, ensure_ascii=False) + "\n"


def _connected(settings: Settings, registry: RegistryDefinition) -> SchemaRegistry:
    return SchemaRegistry(registry.spec, resolver(settings, registry.name))


def online_findings(project: Project) -> Iterator[Diagnostic]:
    """What registries say against a project: copies that are not the newest, sinks whose schema they would refuse, and
    registries that cannot be asked."""
    settings = project.settings
    for (name, subject), (registry, relation) in _wanted(settings).items():
        known = recorded_text(recorded_path(settings.root, name, subject))
        try:
            newest = _newest(settings, registry, subject, relation)
        except DsError as problem:
            yield replace(problem.diagnostic(), span=registry.span)
            continue
        if known is not None and parse_avro(known) != parse_avro(newest):
            told = difference(known, newest)
            found = error("SCHEMA_COPY_OUTDATED", span=registry.span, registry=name, subject=subject, difference=told)
            yield replace(found.diagnostic(), severity="warning")
    for query in project.queries.values():
        yield from _against_sink(project, query.sink)


def _against_sink(project: Project, sink: Relation) -> Iterator[Diagnostic]:
    store = project.catalog.store(sink.store)
    if store.registry is None:
        return
    parts = {"value": (sink.value_format, value_part(sink)), "key": (sink.key.format, key_part(sink))}
    with closing(_connected(project.settings, store.registry)) as registry:
        for part, (format_, named) in parts.items():
            if format_ != "avro":
                continue
            try:
                _check_subject(registry, f"{sink.entity}-{part}", *named)
            except DsError as problem:
                yield replace(problem.diagnostic(), span=sink.span)


def _check_subject(registry: SchemaRegistry, subject: str, name: str, columns: tuple[Column, ...]) -> None:
    latest = registry.latest(subject)
    if latest is None:
        return
    schema = json.dumps(sink_schema(subject, name, columns, latest.schema))
    if not registry.is_compatible(subject, schema):
        told = difference(latest.schema, schema)
        raise error("SCHEMA_INCOMPATIBLE", registry=registry.name, subject=subject, difference=told)
