"""Write the pages of docs/ that are made from the code's own tables.

Usage: python scripts/generate_docs.py [--check]        --check: write nothing, fail when a page is stale
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import yaml

sys.path.insert(0, str(Path(__file__).parent.parent))

from ds_dagster import conditions
from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.properties.compute_pools import COMPUTE_POOL
from ds_dagster.catalog.properties.kafka import KAFKA
from ds_dagster.catalog.properties.latency import LATENCY
from ds_dagster.catalog.properties.secret_types import SECRET
from ds_dagster.catalog.properties.spec import PLACES, PropertySpec
from ds_dagster.catalog.properties.table import (
    DATABRICKS,
    ENTITY,
    FILES,
    FUNCTION,
    PROPERTIES,
    QUERY,
    REGISTRY,
    RELATION,
    SOURCE,
    STORE,
)
from ds_dagster.catalog.store import StoreKind
from ds_dagster.cli.main import COMMANDS, cli
from ds_dagster.datatypes import DataType
from ds_dagster.documentation.conditions import EXAMPLES, HEADINGS, KINDS
from ds_dagster.functions.function import Example, Function, Signature
from ds_dagster.functions.group_function import EXAMPLE_COLUMNS, EXAMPLE_ROWS
from ds_dagster.functions.operators import OPERATORS
from ds_dagster.functions.table import FUNCTIONS, KNOWN_LATER
from ds_dagster.places.checkpoint_settings import CheckpointSettings
from ds_dagster.plan.checks import stacking
from ds_dagster.plan.checks.joins import JOIN_FORMS
from ds_dagster.settings import EngineSettings, Settings
from ds_dagster.stores.registry import built_in

DOCS = Path(__file__).parent.parent / "docs"


# --- Markdown ---------------------------------------------------------------------------------------------------------


def page(title: str, source: str, *parts: str) -> str:
    """A whole page; ``source`` says where its facts stand."""
    note = f"<!-- made by scripts/generate_docs.py from {source}: change it there, then run `make docs` -->"
    return "\n\n".join((f"# {title}", note, *(part.strip("\n") for part in parts if part))) + "\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines)


def cell(text: str) -> str:
    """Text that a table can hold."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def code(text: object) -> str:
    """As code."""
    return f"`{text}`" if str(text) else ""


def codes(texts: Iterable[object]) -> str:
    """Several as code."""
    return ", ".join(code(text) for text in texts)


# --- errors -----------------------------------------------------------------------------------------------------------


def errors_page() -> str:
    """Every condition with its texts."""
    parts = [
        "What does a message mean? Everything that can go wrong has a name that stays the same from version to "
        "version. "
        "It is in brackets after the message, in `--json` output as `condition`, in the journal, in logs and in "
        "Dagster's events. `{…}` "
        "are values of the case at hand. `ds errors NAME` explains one in a terminal, without a network.",
        table(["Whose fault", "Means"], [(code(kind), text) for kind, text in KINDS.items()]),
    ]
    for topic in conditions.TOPICS:
        rows = [
            (
                f'<a id="{c.name.lower()}"></a>{code(c.name)}',
                c.kind.replace("_", " "),
                c.message,
                c.hint.replace("{{", "{").replace("}}", "}"),
            )
            for c in sorted(topic.CONDITIONS, key=lambda c: c.name)
        ]
        heading = HEADINGS[topic.__name__.rpartition(".")[2]]
        parts += [f"## {heading}", table(["Condition", "Whose fault", "Says", "What to do"], rows)]
    return page("Errors", "ds_dagster/conditions/", *parts)


MARK = "‸"
"""Points at the place of a mistake in the fixtures of refused statements."""
REFUSED = Path(__file__).parent.parent / "tests" / "fixtures" / "refused"


def example_texts() -> str:
    """Condition → the shortest refused statement of the tests that raises it alone, as JSON."""
    shortest: dict[str, str] = {}
    for path in sorted(REFUSED.rglob("*.sql")):
        for part in path.read_text(encoding="utf-8").split("-- case: ")[1:]:
            title, _, statement = part.partition("\n")
            name, sql = title.strip(), statement.strip("\n")
            if name in conditions.CONDITIONS and len(sql) < len(shortest.get(name, sql + " ")):
                shortest[name] = sql
    shown = {name: with_caret(sql) for name, sql in sorted(shortest.items())}
    return json.dumps(shown, ensure_ascii=False, indent=0) + "\n"


def with_caret(marked: str) -> str:
    """A statement with a caret in a line of its own below the marked place."""
    lines: list[str] = []
    for line in marked.split("\n"):
        lines.append(line.replace(MARK, ""))
        if MARK in line:
            lines.append(" " * line.index(MARK) + "^")
    return "\n".join(lines)


# --- stores -----------------------------------------------------------------------------------------------------------

DELIVERY: Mapping[str, str] = {
    "exactly_once": "exactly once",
    "idempotent_by_key": "idempotent by key",
    "at_least_once": "at least once",
}
TIME: Mapping[str, str] = {
    "broker": "the store, on arrival",
    "producer": "who writes the record",
    "by_entity": "the broker or the producer, as the topic is set",
    "none": "–",
}


def yes(value: bool) -> str:
    """A mark for people."""
    return "yes" if value else "–"


def delivered(able: bool, guarantee: str) -> str:
    """A guarantee, where there is something to guarantee."""
    return DELIVERY[guarantee] if able else "–"


ABILITIES: tuple[tuple[str, Callable[[Capabilities], str]], ...] = (
    ("source of streams and changelogs", lambda c: yes(c.reads_streams)),
    ("sink of CREATE STREAM … AS, INSERT INTO", lambda c: delivered(c.writes_streams, c.stream_delivery)),
    ("sink of CREATE CHANGELOG … AS", lambda c: delivered(c.writes_streams, c.changelog_delivery)),
    ("sink of CREATE TABLE … AS", lambda c: delivered(c.writes_tables, c.table_delivery)),
    ("holds materialized views", lambda c: delivered(c.serves_views, c.table_delivery)),
    ("upserts and deletes in tables and views", lambda c: yes(c.supports_upsert and c.supports_delete)),
    ("records have keys", lambda c: yes(c.record_keys)),
    ("longest key", lambda c: f"{c.max_key_characters} characters" if c.max_key_characters else "–"),
    ("who sets a record's time", lambda c: TIME[c.record_time]),
    ("begins to read at a moment", lambda c: yes("timestamp" in c.starting_positions)),
    ("begins to read at offsets", lambda c: yes("offsets" in c.starting_positions)),
    ("ranges of its records are read again (`ds backfill`)", lambda c: yes(c.reads_streams and not c.no_past)),
    ("goes on past lost records, counting them", lambda c: yes(c.skips_lost_records)),
    ("gives `rowmetadata()`", lambda c: f"`{c.row_metadata}`" if c.row_metadata else "–"),
    ("properties that size a new entity", lambda c: codes(c.count_properties) or "–"),
    ("exists without CREATE STORE", lambda c: yes(c.embedded)),
)


def stores_page() -> str:
    """Capability matrix, then each kind's properties and gaps."""
    kinds = [kind for kind in built_in() if not kind.capabilities.not_yet]
    later = [kind for kind in built_in() if kind.capabilities.not_yet]
    headers = ["", *(spellings(kind) for kind in kinds)]
    parts = [
        "What can each kind of store do? The compiler uses this table: what is not in it is refused before "
        "anything runs. *Exactly once* means that a batch which is repeated after a crash leaves no trace; "
        "*idempotent "
        "by key* that repeating it writes the same records again; *at least once* that a repeated batch "
        "may show twice.",
        table(headers, [(name, *(shown(kind.capabilities) for kind in kinds)) for name, shown in ABILITIES]),
    ]
    for kind in kinds:
        parts += [f"## {kind.name}", *kind_parts(kind)]
    rows = [(code(kind.name), kind.capabilities.not_yet) for kind in later]
    parts += ["## Not built yet", table(["Kind", "What to do today"], rows)]
    return page("Stores", "the capability records in ds_dagster/stores/", *parts)


def spellings(kind: StoreKind) -> str:
    """Name and other names of a kind."""
    return codes((kind.name, *kind.aliases))


def kind_parts(kind: StoreKind) -> Iterator[str]:
    """Properties and gaps of one kind."""
    if kind.store_properties:
        yield f"Properties of `CREATE STORE … WITH ('type' = {kind.name}, …)`: " + linked(kind.store_properties) + "."
    if kind.relation_properties:
        yield "Properties of its relations: " + linked(kind.relation_properties) + "."
    if kind.capabilities.not_built:
        yield table(["Not built yet", "Instead"], kind.capabilities.not_built)


def linked(specs: Iterable[PropertySpec]) -> str:
    """Names of properties, each with a link to its line."""
    return ", ".join(f"[{code(spec.name)}](properties.md#{anchor(spec.name)})" for spec in specs)


def anchor(name: str) -> str:
    """Anchor of a property."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


# --- properties -------------------------------------------------------------------------------------------------------

GROUPS: tuple[tuple[str, str, tuple[PropertySpec, ...]], ...] = (
    ("Stores", "`CREATE STORE … WITH`", STORE),
    ("Kafka", "`CREATE STORE … WITH` of that type", KAFKA),
    ("Schema registries", "`CREATE SCHEMA_REGISTRY … WITH`", REGISTRY),
    ("Secrets", "`CREATE SECRET … WITH`", SECRET),
    ("Databricks", "`CREATE STORE … WITH` of that type, and its tables", DATABRICKS),
    ("Topics, Kinesis streams and tables", "what a relation's data stands in", ENTITY),
    ("Files", "how a stream's files are written and found", FILES),
    ("Relations", "what the data means", RELATION),
    ("Latency", "how a query runs, see [real-time mode](semantics.md#real-time-mode)", LATENCY),
    ("Sources", "how one query reads a relation: WITH behind its name in FROM or JOIN", SOURCE),
    (
        "Functions",
        "`CREATE FUNCTION … WITH`, see [functions of your own](../how-to/functions-of-your-own.md)",
        FUNCTION,
    ),
    ("Compute pools", "`CREATE COMPUTE_POOL … WITH`, see [compute pools](../how-to/compute-pools.md)", COMPUTE_POOL),
    ("Queries", "`QUERY WITH` behind the SELECT", QUERY),
)
SHORT_PLACES: Mapping[str, str] = {
    "store": "store",
    "registry": "schema registry",
    "secret": "CREATE SECRET",
    "descriptor_source": "descriptor source",
    "function_source": "function source",
    "function": "CREATE FUNCTION",
    "compute_pool": "compute pool",
    "relation": "declaration",
    "sink": "CREATE … AS",
    "source": "source",
    "query": "query",
    "entity": "entity",
}


def properties_page() -> str:
    """Every property: where it may stand and what it means."""
    shown = {spec.name for _, _, group in GROUPS for spec in group}
    assert shown == {spec.name for spec in PROPERTIES}, "a group of properties is missing in GROUPS"
    places = [(SHORT_PLACES[name], text) for name, text in PLACES.items()]
    parts = [
        "Which properties may you write in a `WITH` clause? A name that is not here is refused with the nearest "
        "one; a value of the "
        "wrong kind with what is allowed; a property in the wrong place with the right one.",
        table(["In the tables below", "Stands in"], places),
    ]
    for title, about, group in GROUPS:
        rows = [property_row(spec) for spec in group]
        parts += [
            f"## {title}",
            about[0].upper() + about[1:] + ".",
            table(["Property", "Value", "Where", "Meaning"], rows),
        ]
    return page("Properties", "ds_dagster/catalog/properties/table.py", *parts)


def property_row(spec: PropertySpec) -> tuple[str, str, str, str]:
    """One line of a table."""
    name = f'<a id="{anchor(spec.name)}"></a>{code(spec.name)}'
    also = f" (also {codes(spec.aliases)})" if spec.aliases else ""
    meaning = spec.doc + (". Never shown, and best written as `${NAME}`" if spec.secret else "")
    if spec.not_yet:
        meaning += f". *Not built yet:* {spec.not_yet}"
    for word, reason in spec.choices_not_yet:
        meaning += f". *{word.upper()} is not built yet:* {reason}"
    return name + also, value_text(spec), ", ".join(SHORT_PLACES[place] for place in spec.places), meaning


VALUES: Mapping[str, str] = {
    "text": "text",
    "integer": "whole number",
    "boolean": "TRUE, FALSE",
    "name": "name",
    "names": "names, with commas",
    "type": "type",
    "millis": "milliseconds",
    "moment": "a time",
    "offsets": "partition:offset, with commas",
    "file": "path, relative to the project",
}


def value_text(spec: PropertySpec) -> str:
    """What may be written."""
    if spec.type == "word":
        return codes(choice.upper() for choice in spec.choices) or "one of the kinds in [Stores](stores.md)"
    return VALUES[spec.type] + (f" ≥ {spec.minimum}" if spec.minimum is not None else "")


# --- functions --------------------------------------------------------------------------------------------------------

FUNCTION_KINDS: Mapping[str, str] = {
    "scalar": "Functions of one row",
    "aggregate": "Aggregates",
    "metadata": "Metadata of a record",
    "grouping": "Sets of GROUP BY",
    "window": "Functions of other rows, with OVER",
}
NULLS: Mapping[str, str] = {
    "any": "when an argument is",
    "all": "when all arguments are",
    "never": "never",
    "always": "as described",
}


def functions_page() -> str:
    """Every operator, and every function with its signatures."""
    parts = [
        "Which operators and functions are there? Names are read in any case. `?` behind an argument: it may be left "
        "out; `+`: it may be repeated; *same*: "
        "arguments are converted to the one type that holds them all. All dates and times are in UTC.",
    ]
    shown = [(code(one.text), one.meaning, example_text(one.examples)) for one in OPERATORS]
    parts += ["## Operators", table(("Operator", "Meaning", "Example"), shown)]
    for kind, title in FUNCTION_KINDS.items():
        found = sorted((f for f in FUNCTIONS.values() if f.kind == kind), key=lambda f: f.name)
        shown_rows = example_rows() if kind in ("aggregate", "window") else ""
        parts += [f"## {title}", shown_rows, table(FUNCTION_COLUMNS, [function_row(f) for f in found])]
    rows = [(code(name), instead) for name, instead in sorted(KNOWN_LATER.items())]
    parts += ["## Not built yet", table(["Function", "What works today"], rows)]
    return page("Functions", "the records in ds_dagster/functions/", *parts)


def example_rows() -> str:
    """The rows of the examples of aggregates, in words."""
    names = [column.split()[0] for column in EXAMPLE_COLUMNS.split(", ")]
    shown = ("(" + ", ".join(map(literal, row)) + ")" for row in EXAMPLE_ROWS)
    return f"Examples are over the rows ({', '.join(names)}) = {code(', '.join(shown))}, in the order of their time."


def literal(value: str | int | bool | None) -> str:
    """A value as the dialect writes it."""
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    return f"'{value}'" if isinstance(value, str) else str(value)


FUNCTION_COLUMNS = ("Function", "Gives", "Meaning", "NULL", "Example")


def function_row(function: Function) -> tuple[str, ...]:
    """One line of a table."""
    forms = "<br>".join(code(f"{function.name}{str(form).replace('same_', '')}") for form in function.signatures)
    also = f"<br>also {codes(function.aliases)}" if function.aliases else ""
    results = dict.fromkeys(result_text(form) for form in function.signatures)
    meaning = function.meaning + ("" if function.deterministic else "; differs when a batch is repeated")
    return forms + also, "<br>".join(results), meaning, NULLS[function.nulls], example_text(function.examples)


def example_text(examples: Iterable[Example]) -> str:
    """Calls and what they give."""
    return "<br>".join(f"{code(example.call)} → {code(example.gives)}" for example in examples)


def result_text(form: Signature) -> str:
    """Type of a result; by the arguments where it follows from them."""
    return "by its argument" if not isinstance(form.result, DataType) else code(form.result)


# --- settings ---------------------------------------------------------------------------------------------------------

VARIABLES: Mapping[str, str] = {
    "DS_PROFILE": "a file of store properties used instead of `<state>/local.toml`; `none`: no such file at all",
    "DS_LOG_LEVEL": "`debug`: the engine logs every batch",
    "DS_CACHE": "folder of downloaded jars and programs; default: `ds-dagster` in the user's cache folder",
    "DS_DOCS_URL": "address of the documentation as a site; messages then end with the address of their page. "
    "Default: "
    "the project URL `Documentation` of the installed package, none where it has none",
    "DS_KAFKA_OPTIONS": "further options of the JVM of the local Kafka, `-Xmx1g`",
    "DS_TEST_MASTER": "Spark master of test cases, for example `local-cluster[2,2,1024]` (default: this process)",
    "DS_IVY_SETTINGS": "an Ivy settings file for the download of jars (a company's own repository)",
}
"""Environment variables beside the settings' own."""
NOT_WRITTEN = (
    "root", "file", "overlay", "store_values", "source_names", "ordered_state", "pool", "engine",
    "checkpoints", "spark",
)  # fmt: skip
PATHS: Mapping[str, str] = {"sql": "sql", "state": ".ds"}
EXAMPLE = """```toml
[tool.ds-dagster]
sql = "sql"
database = "clickstream_db"
store = "prod_kafka"

[tool.ds-dagster.engine]
cores = 2
memory = "1g"

[tool.ds-dagster.spark]        # any Spark property
"spark.sql.shuffle.partitions" = "2"
```"""


def settings_page() -> str:
    """Every setting with its default."""
    about = attributes(Settings)
    rows = [
        (code(f.name), code(PATHS.get(f.name, f.default)), code(f"DS_{f.name.upper()}"), about[f.name])
        for f in fields(Settings)
        if f.name not in NOT_WRITTEN
    ]
    engine = attributes(EngineSettings)
    engine_rows = [(code(f.name), code(f.default), engine[f.name]) for f in fields(EngineSettings)]
    bucket = attributes(CheckpointSettings)
    bucket_rows = [(code(f.name), bucket[f.name]) for f in fields(CheckpointSettings)]
    return page(
        "Settings",
        "ds_dagster/settings.py",
        "What can be set, and where? Settings are in `pyproject.toml` under `[tool.ds-dagster]`, or in a file "
        "`ds.toml` without that prefix. "
        "Last wins: default, file, environment variable, argument of `DsProject` in Python. A name that is not "
        "here is "
        "refused.",
        EXAMPLE,
        "## `[tool.ds-dagster]`",
        table(["Setting", "Default", "Variable", "Meaning"], rows),
        "## `[tool.ds-dagster.engine]`",
        table(["Setting", "Default", "Meaning"], engine_rows),
        "## `[tool.ds-dagster.checkpoints]`",
        "A bucket for checkpoints, see [Checkpoints in a bucket](../how-to/deploy.md#checkpoints-in-a-bucket).",
        table(["Setting", "Meaning"], bucket_rows),
        "## `[tool.ds-dagster.spark]`",
        attributes(Settings)["spark"][0].upper()
        + attributes(Settings)["spark"][1:]
        + ", as text, number or truth value.",
        "## Further environment variables",
        table(["Variable", "Meaning"], [(code(name), text) for name, text in VARIABLES.items()]),
    )


def attributes(record: type) -> dict[str, str]:
    """Name → text of the attributes in a record's docstring."""
    text = inspect.cleandoc(record.__doc__ or "").partition("Attributes:\n")[2]
    found: dict[str, str] = {}
    for names, meaning in re.findall(r"^    ([a-z_, ]+): (.+(?:\n(?!    [a-z_, ]+: ).+)*)", text, re.MULTILINE):
        for name in names.split(", "):
            found[name] = re.sub(r"\s+", " ", meaning.replace("``", "`")).rstrip(".")
    return found


# --- commands ---------------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options."""
    context = click.Context(cli, info_name="ds")
    parts = [
        "What does a command do, and which options has it? `ds` is short for `ds-dagster`. Results go to "
        "standard output, progress and remarks to standard error. Exit "
        "codes: 0 done, 1 the project or a job is at fault, 2 wrong usage (of `ds plan --exit-code`: there are "
        "changes), 3 a bug of ours. Tables are coloured on a terminal; `NO_COLOR=1` turns colours off.",
        "Tab completes commands and options after this line in `~/.bashrc` (`zsh_source` in `~/.zshrc`, `fish_source` "
        'in fish): `eval "$(_DS_COMPLETE=bash_source ds)"`.',
    ]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts += command_parts(command, context)
    return page("Commands", "the help texts in ds_dagster/cli/", *parts)


def command_parts(command: click.Command, parent: click.Context) -> list[str]:
    """One command, and those below it."""
    context = click.Context(command, info_name=command.name, parent=parent)
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    depth = "##" if parent.parent is None else "###"
    parts = [f"{depth} {context.command_path}", f"```\n{usage}\n```", paragraphs(command.help or "")]
    written = [option for option in command.params if isinstance(option, click.Option)]
    options = [record for option in written if (record := option.get_help_record(context)) is not None]
    rows = [(code(flags), text) for flags, text in options]
    parts.append(table(["Option", "Meaning"], rows) if rows else "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            parts += command_parts(below, context)
    return parts


def paragraphs(text: str) -> str:
    """A help text as Markdown: lines of a paragraph joined, click's marks removed."""
    found = (re.sub(r"\s+", " ", part.replace("\b", "")) for part in inspect.cleandoc(text).split("\n\n"))
    return "\n\n".join(part.strip() for part in found)


# --- steps ------------------------------------------------------------------------------------------------------------


def steps_page() -> str:
    """docs/reference/steps.md."""
    rules = (
        (rule.upper, rule.need.text, rule.reason, linked_condition(rule.condition), instead_of(rule))
        for rule in stacking.RULES
    )
    joins = (
        (left, right, JOIN_WORDS[form] if form else "refused", instead.format(left="left", right="right"))
        for (left, right), (form, instead) in JOIN_FORMS.items()
    )
    return page(
        "Which steps can be combined",
        "the tables of `ds_dagster/plan/checks/`",
        """Can a window read the result of a join? Can a pattern read a ranking? A query is a chain of steps. This page
says what each step needs of the rows it reads, and which condition refuses a query without it. Steps that are not in
the table read the rows of every step. `ds explain` shows the steps of a query.""",
        "## What a step needs",
        """*A step* is any that keeps earlier rows: a join, an aggregate, `DISTINCT`, a ranking, a condition with a
sub-select.""",
        table(("Step", "Needs", "Because", "Else refused as", "Write instead"), rules),
        "## Which relations can be joined",
        table(("Left", "Right", "Join", "Write instead"), joins),
        """A table or a view on the right of a stream is looked up by every batch; it cannot be on the right of a
changelog.""",
    )


def edits_page() -> str:
    """docs/reference/edits.md."""
    edits = yaml.safe_load(EDITS.read_text(encoding="utf-8"))
    parts = ["The queries read these sources:", f"```sql\n{edits['sources']}```"]
    for family in edits["families"]:
        rows = (
            (row["name"], *(code(text.strip()) for text in row["replace"]), verdict_text(row))
            for row in family["edits"]
        )
        parts += [f"## {family['title']}", f"```sql\n{family['base']}\n```", table(EDIT_COLUMNS, rows)]
    return page(
        "Edits of a query",
        "`tests/fixtures/edits.yaml`",
        """Does an edit of a running query keep its checkpoint? This page lists edits by the kind of query, with the
verdict that `ds plan` shows. The edit replaces the text in the second column by that in the third, in the query above
the table or in the declaration of its source. Each edit is tested in both directions; where the verdict of the reverse
edit differs, it is named. Edits that change nothing or keep the checkpoint are stopped and started, both ways, and
their rows are compared with a batch query, and so are partial results; after the other edits the query starts over,
and is compared as well.""",
        """*Unchanged*: nothing to do. *Keeps*: `ds restart` goes on with the state; rows from then on follow the new
definition, rows that are written stay, and rows that the old definition left out stay left out. *New version*:
`ds stage` where the relation [has versions](../how-to/change-a-query.md), else `ds reset`. *Loses*: the same, but
earlier records are not read again. *Or partial*: `ds restart --allow partial` keeps the state; in groups that exist,
the added results then count only the rows since the edit.""",
        *parts,
    )


EDITS = Path(__file__).parent.parent / "tests" / "fixtures" / "edits.yaml"
EDIT_COLUMNS = ("Edit", "Before", "After", "Verdict")


def verdict_text(row: Mapping[str, Any]) -> str:
    """The verdict, with that of the reverse edit where it differs."""
    text, back = _verdict_word(row, "verdict", "partial"), _verdict_word(row, "back", "back_partial")
    return f"{text}; back: {back}" if back and back != text else text


def _verdict_word(row: Mapping[str, Any], verdict: str, partial: str) -> str:
    word = row.get(verdict, row["verdict"] if partial in row else "")
    return f"{word}, or partial" if partial in row else str(word)


JOIN_WORDS: Mapping[str, str] = {
    "interval": "interval join, with `WITHIN`",
    "temporal": "temporal join: the version valid at the time of the row",
    "changelog": "all pairs as both sides are now",
}
"""Form of a join → what it is."""


def instead_of(rule: stacking.StackingRule) -> str:
    """What to write where a rule is not met."""
    return rule.instead or conditions.CONDITIONS[rule.condition].hint


def linked_condition(name: str) -> str:
    """A condition, linked to its line of the page of errors."""
    return f"[`{name}`](errors.md#{name.lower()})"


# --- writing ----------------------------------------------------------------------------------------------------------

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/errors.md": errors_page,
    "reference/stores.md": stores_page,
    "reference/properties.md": properties_page,
    "reference/functions.md": functions_page,
    "reference/steps.md": steps_page,
    "reference/edits.md": edits_page,
    "reference/settings.md": settings_page,
    "reference/commands.md": commands_page,
}
"""File in docs/ → what makes it."""
DATA: Mapping[Path, Callable[[], str]] = {EXAMPLES: example_texts}
"""File that the package carries → what makes it."""


def stale() -> dict[Path, str]:
    """Files that differ from what the code says now, with their new text."""
    generated = {**{DOCS / name: make for name, make in PAGES.items()}, **DATA}
    texts = {path: make() for path, make in generated.items()}
    return {path: text for path, text in texts.items() if _read(path) != text}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def main(arguments: list[str]) -> int:
    """Write or check; the exit code."""
    for path, text in (changed := stale()).items():
        shown = path.relative_to(DOCS.parent)
        if "--check" in arguments:
            print(f"{shown} is not what the code says: run `make docs`", file=sys.stderr)
            continue
        path.write_text(text, encoding="utf-8")
        print(f"{shown} written", file=sys.stderr)
    return int("--check" in arguments and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
