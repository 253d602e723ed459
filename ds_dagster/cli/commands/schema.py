"""Schema registries on the command line: ``ds schemas``, and their part of ``ds check --online``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from ds_dagster.catalog.declaring.builder import subjects_to_record
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.schemas.formats import Named, SchemaFormat, parts_of
from ds_dagster.catalog.schemas.recorded import recorded_path, recorded_text
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.catalog.schemas.relations import ToRecord
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of, table
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, error
from ds_dagster.project.load import LoadedProject, read_texts
from ds_dagster.runtime.connecting import resolver
from ds_dagster.settings import Settings
from ds_dagster.sql.script import parse_file
from ds_dagster.stores.registry import KINDS
from ds_dagster.stores.schema_registry import SchemaRegistry


@click.command("schemas")
@project_option
@json_option
def schemas_command(project: Path | None, as_json: bool) -> int:
    """Copy the schemas of relations without a column list from their registries into the project's folder schemas/."""
    settings = settings_of(project, quiet=as_json)
    rows: list[dict[str, object]] = []
    for schema in _wanted(settings):
        path = _path(settings, schema)
        text = _newest(settings, schema)
        recorded = recorded_text(path)
        state = "new" if recorded is None else "changed" if recorded != text else "unchanged"
        if state != "unchanged":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        difference = _difference(schema.format, recorded, text) if recorded is not None and state == "changed" else ""
        file = path.relative_to(settings.root).as_posix()
        rows.append(
            {
                "relation": schema.relation,
                "subject": schema.subject,
                "file": file,
                "state": state,
                "difference": difference,
            }
        )
    if as_json:
        emit_json(rows)
    elif rows:
        table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        note("every relation lists its columns: there is nothing to copy")
    return 0


def _wanted(settings: Settings) -> tuple[ToRecord, ...]:
    texts, _ = read_texts(settings)
    return subjects_to_record([parse_file(name, text) for name, text in texts], settings, KINDS)


def _path(settings: Settings, schema: ToRecord) -> Path:
    return recorded_path(settings.root, schema.registry.name, schema.subject, schema.format)


def _newest(settings: Settings, schema: ToRecord) -> str:
    """The text of a copy of the newest version.

    Raises:
        DsError: SCHEMA_MISSING, and errors of the registry.
    """
    with closing(_connected(settings, schema.registry)) as client:
        latest = client.latest(schema.subject, schema.format.type)
    if latest is None:
        raise error("SCHEMA_MISSING", registry=schema.registry.name, subject=schema.subject, relation=schema.relation)
    return schema.format.copied(latest.schema)


def _difference(format_: SchemaFormat, recorded: str, text: str) -> str:
    return format_.difference(format_.recorded(recorded), format_.recorded(text))


def _connected(settings: Settings, registry: RegistryDefinition) -> SchemaRegistry:
    return SchemaRegistry(registry.spec, resolver(settings, registry.name))


def online_findings(project: LoadedProject) -> Iterator[Diagnostic]:
    """Findings of registries about a project: outdated copies, incompatible schemas of sinks, unreachable
    registries."""
    settings = project.settings
    for schema in _wanted(settings):
        recorded = recorded_text(_path(settings, schema))
        try:
            newest = _newest(settings, schema)
        except DsError as problem:
            yield replace(problem.diagnostic(), span=schema.registry.span)
            continue
        if recorded is not None and not schema.format.same(
            schema.format.recorded(recorded), schema.format.recorded(newest)
        ):
            params = {"registry": schema.registry.name, "subject": schema.subject}
            params["difference"] = _difference(schema.format, recorded, newest)
            outdated = error("SCHEMA_COPY_OUTDATED", span=schema.registry.span, **params)
            yield replace(outdated.diagnostic(), severity="warning")
    for query in project.queries.values():
        for sink in query.sinks:
            yield from _against_sink(project, sink)


def _against_sink(project: LoadedProject, sink: Relation) -> Iterator[Diagnostic]:
    store = project.catalog.store(sink.store)
    parts = parts_of(sink)
    if store.registry is None or not parts:
        return
    with closing(_connected(project.settings, store.registry)) as registry:
        for part, format_, named in parts:
            try:
                _check_subject(registry, format_, f"{sink.entity}-{part}", named)
            except DsError as problem:
                yield replace(problem.diagnostic(), span=sink.span)


def _check_subject(registry: SchemaRegistry, format_: SchemaFormat, subject: str, named: Named) -> None:
    latest = registry.latest(subject, format_.type)
    if latest is None:
        return
    schema = format_.sink(subject, *named, latest.schema, None)
    if not registry.is_compatible(subject, schema, format_.type):
        difference = format_.difference(latest.schema, schema)
        raise error("SCHEMA_INCOMPATIBLE", registry=registry.name, subject=subject, difference=difference)
