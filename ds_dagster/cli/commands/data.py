"""Commands that show data: ``ds print`` shows records as they are in a store, ``ds query`` answers a SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click
from sqlglot import exp

from ds_dagster.catalog.reading.parts import NamesParts
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import StoreAdmin
from ds_dagster.cli.output import Seconds, json_option, note, project_option, settings_of, visible
from ds_dagster.cli.record_output import ShownRecord, is_part, lines_of, shower
from ds_dagster.cli.results.file import SHAPES, ResultFile, shape_of
from ds_dagster.cli.results.freshness import tell_freshness
from ds_dagster.cli.results.question import Presentation, answer_select
from ds_dagster.cli.results.watching import until_interrupted
from ds_dagster.cli.row_output import FORMATS
from ds_dagster.cli.times import Since
from ds_dagster.errors import DsError, InternalError, error
from ds_dagster.names import did_you_mean
from ds_dagster.project.load import LoadedProject, load_project, store_admin
from ds_dagster.runtime.connecting import resolver

PARTITIONS = "topic.partitions"
"""Name of the count of partitions in the facts of a topic."""
PARTS_SHOWN = 20
"""Most names of shards in a message."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which records to show.

    Attributes:
        from_beginning: also existing records.
        begin: earliest time of a record, epoch milliseconds; None: any time.
        key: key of the records; empty: any key.
        partition: partition or shard of the records; empty: any.
        limit: most records; None: no limit.
    """

    from_beginning: bool = False
    begin: int | None = None
    key: str = ""
    partition: str = ""
    limit: int | None = None

    @property
    def option(self) -> str:
        """The first written option that only works for records; empty without one."""
        options = {"--since": self.begin is not None, "--key": bool(self.key), "--partition": bool(self.partition)}
        return next((name for name, is_written in options.items() if is_written), "")

    def includes(self, record: ShownRecord) -> bool:
        """Whether a record has the wanted key and partition."""
        return (not self.partition or record.is_in(self.partition)) and (not self.key or record.has_key(self.key))


@click.command("print")
@click.argument("name", metavar="ENTITY|RELATION")
@click.option("--store", help="The store the entity is in (default: the store of the relation of this name).")
@click.option("--from-beginning", is_flag=True, help="Print existing records too.")
@click.option("--since", "begin", type=Since(), help="Records written since then: 1h, or 2024-05-01T12:00:00 (UTC).")
@click.option(
    "--key", default="", metavar="TEXT", help="Only records of this key: its text, or the value of a JSON key."
)
@click.option("--partition", "--shard", default="", help="Only records of this partition or shard.")
@click.option("--limit", type=click.IntRange(min=1), help="End after this many records.")
@project_option
@json_option
def print_command(
    name: str,
    store: str | None,
    from_beginning: bool,
    begin: int | None,
    key: str,
    partition: str,
    limit: int | None,
    project: Path | None,
    as_json: bool,
) -> int:
    """Print committed records until Ctrl-C: partition, offset, time, key and value.

    A deleted key is shown with the value null. With --limit and --from-beginning or --since it also ends after the last
    record. Views and tables have rows instead of records: they are printed once, keys and rows side by side. --json
    prints one object per record.
    """
    whole = loaded(project, as_json)
    place = _place(whole, name, store)
    wanted = _Wanted(from_beginning or begin is not None, begin, key, partition, limit)
    if place.relation is not None and place.relation.kind in ("materialized_view", "table"):
        if wanted.option:
            raise error("PRINT_OPTION_OF_RECORDS", option=wanted.option, relation=place.relation.name.name)
        return _print_rows(whole, place.relation, limit, as_json)
    lines, count = lines_of(whole, place.store), 0
    with until_interrupted():
        for record in islice(_records(whole, place, wanted), limit):
            count += 1
            _show(record, None if as_json else lines.line(record))
    if not count and (key or partition):
        chosen = [f"the {name} {text}" for name, text in (("key", key), ("partition", partition)) if text]
        note(f"no record has {' and '.join(chosen)}")
    return 0


@dataclass(frozen=True, slots=True)
class _Place:
    """An entity in a store, and the relation that describes its records, if any."""

    store: str
    entity: str
    relation: Relation | None = None


def _place(project: LoadedProject, name: str, store: str | None) -> _Place:
    """The entity of a name: of a relation with this name, or an entity that relations use; with ``store`` any entity of
    that store."""
    from ds_dagster.questions.relations import resolve_typed

    relations = project.catalog.relations.values()
    if store is not None:
        definition = project.catalog.store(store)
        described = next((r for r in relations if r.store == definition.name and r.entity == name), None)
        return _Place(definition.name, name, described)
    try:
        relation = resolve_typed(project, name)
    except DsError as problem:
        if problem.condition != "UNKNOWN_RELATION":
            raise
        return _entity(name, list(relations))
    return _Place(relation.store, relation.entity, relation)


def _entity(name: str, relations: Sequence[Relation]) -> _Place:
    matches = [relation for relation in relations if relation.entity == name]
    stores = sorted({relation.store for relation in matches})
    if len(stores) > 1:
        raise error("ENTITY_AMBIGUOUS", name=name, stores=stores)
    if not matches:
        entities = [r.entity for r in relations if r.kind in ("stream", "changelog")]
        names = dict.fromkeys([*(r.name.name for r in relations), *entities])
        raise error("ENTITY_UNKNOWN", name=name, nearest=did_you_mean(name, names))
    return _Place(stores[0], name, matches[0])


def _records(project: LoadedProject, place: _Place, wanted: _Wanted) -> Iterator[ShownRecord]:
    from ds_dagster.questions.following import records_of

    show = shower(project, place.store, place.relation)
    admin = store_admin(project, place.store, resolver(project.settings, place.store))
    try:
        if wanted.partition:
            _check_partition(admin, place.entity, wanted.partition)
        records = records_of(
            admin,
            place.entity,
            from_beginning=wanted.from_beginning,
            begin=wanted.begin,
            ends=wanted.limit is not None,
            stopped=lambda: False,
        )
        yield from (record for record in map(show, records) if wanted.includes(record))
    finally:
        admin.close()


def _check_partition(admin: StoreAdmin, entity: str, partition: str) -> None:
    """Check that a topic has a partition (by number), or a stream a shard (by name).

    Raises:
        UserError: PRINT_PARTITION_UNKNOWN.
    """
    if isinstance(admin, NamesParts):
        names, part = admin.parts(entity), "shard"
        shown = ", ".join([*names[:PARTS_SHOWN], *(["…"] if len(names) > PARTS_SHOWN else [])])
    else:
        facts, part = admin.describe(entity), "partition"
        names = [str(number) for number in range(0 if facts is None else facts.counts.get(PARTITIONS, 0))]
        shown = f"0 to {len(names) - 1}"
    if names and not any(is_part(name, partition) for name in names):
        raise error("PRINT_PARTITION_UNKNOWN", part=part, partition=partition, entity=entity, parts=shown)


def _show(record: ShownRecord, line: str | None) -> None:
    from ds_dagster.questions.values import line as json_line

    click.echo(json_line(record.document) if line is None else line)


def _print_rows(project: LoadedProject, relation: Relation, limit: int | None, as_json: bool) -> int:
    from ds_dagster.questions.answers import ask_rows
    from ds_dagster.questions.binding import bind_question
    from ds_dagster.questions.relations import table_name
    from ds_dagster.questions.values import line
    from ds_dagster.sql.expressions import RelationRef
    from ds_dagster.sql.script import parse_select
    from ds_dagster.sql.statements import SelectBody

    body = parse_select("SELECT * FROM relation_to_print")
    tree = body.tree.copy()
    reference = tree.find(RelationRef)
    assert reference is not None
    parts = [exp.to_identifier(part, quoted=True) for part in relation.name.parts]
    for part, name in zip(("catalog", "db", "this"), parts, strict=True):
        reference.set(part, name)
    question = bind_question(project, SelectBody(tree, body.span)).limited(limit)
    for row in ask_rows(project, question):
        key = {name: row[name] for name in relation.primary_key} or None
        if as_json:
            click.echo(line({"relation": table_name(relation), "key": key, "value": row}))
        else:
            click.echo(visible(f"{line(key) if key else 'null'} | {line(row)}"))
    tell_freshness(project, question.relations)
    return 0


@click.command("query")
@click.argument("sql", metavar='"SELECT …"')
@click.option("--limit", type=click.IntRange(min=1), help="Most rows to print.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(FORMATS),
    help="Default: table. csv, tsv: a header, NULL is empty; jsonl: an object per row; vertical: a line per column.",
)
@click.option("--output", "file", type=ResultFile(), help=f"Write rows to a file, by its ending: {', '.join(SHAPES)}.")
@click.option("--watch", "every", type=Seconds(min=0.1), metavar="SECONDS", help="Repeat, with this pause.")
@click.option("--timing", is_flag=True, help="Print the time the answer takes.")
@project_option
@json_option
def query_command(
    sql: str,
    limit: int | None,
    shape: str | None,
    file: Path | None,
    every: float | None,
    timing: bool,
    project: Path | None,
    as_json: bool,
) -> int:
    """Answer a SELECT.

    Over materialized views and tables it is answered once, also while their queries write: WHERE, GROUP BY, ORDER BY,
    LIMIT, aggregates, joins, sub-selects. Over one stream or changelog, rows are printed until Ctrl-C; with a limit,
    until the limit or the newest record: columns, expressions and WHERE; a changelog shows upserts (+) and deletes (-).
    --json prints one document {"columns": […], "rows": […]}; over a stream or changelog without a limit, one object per
    row. On a terminal, a result that is longer than the screen is shown by the program of PAGER; PAGER=cat prints it.
    """
    if file is not None and (as_json or shape or every):
        raise click.UsageError("--output has its format from the file's ending; leave out --format, --json and --watch")
    if as_json and shape not in (None, "json"):
        raise click.UsageError(f"--format {shape} is not JSON; leave out --json or --format")
    wanted = Presentation(
        shape=shape_of(file) if file is not None else "json" if as_json else shape or "table",
        limit=limit,
        file=file,
        every=every,
        is_timed=timing,
    )
    whole = loaded(project, wanted.shape != "table")
    from ds_dagster.questions.binding import with_fragment

    try:
        answer_select(whole, sql, wanted)
    except InternalError:
        raise
    except DsError as problem:
        raise with_fragment(problem, sql) from problem
    return 0


def loaded(project: Path | None, as_json: bool) -> LoadedProject:
    """Load the project; ``as_json``: without a note about an overlay."""
    settings = settings_of(project, quiet=as_json)
    return load_project(settings.root, settings=settings)
