"""Commands about the SQL of a project: check, fmt, lsp, explain, lineage, ls, init."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

import click

from ds_dagster.catalog.properties.latency import mode_text
from ds_dagster.cli.output import emit_json, json_option, note, project_option, settings_of, show_diagnostics, table
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import ProjectError, error
from ds_dagster.names import QualifiedName, did_you_mean
from ds_dagster.project.load import LoadedProject, delivery_of, load_project, uri_of

STORE_SECONDS = 20.0
"""Time limit for the stores' answers in `check --online`."""


@click.command("check")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--online", is_flag=True, help="Also check stores and schema registries.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    show_default=True,
    help="github: annotations of a workflow; sarif: for code scanning. --json is json.",
)
@project_option
@json_option
def check_command(paths: tuple[Path, ...], online: bool, style: str, project: Path | None, as_json: bool) -> int:
    """Compile everything offline and list all mistakes. PATHS: show only mistakes in these files and folders."""
    as_json = as_json or style == "json"
    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings)
    if loaded.asked:
        from ds_dagster.questions.checking import question_mistakes

        loaded = replace(loaded, diagnostics=(*loaded.diagnostics, *question_mistakes(loaded)))
    if online:
        from ds_dagster.cli.commands.schema import online_findings
        from ds_dagster.cli.online import store_findings

        findings = (*online_findings(loaded), *store_findings(loaded, STORE_SECONDS))
        loaded = replace(loaded, diagnostics=(*loaded.diagnostics, *findings))
    chosen = {str(path) for path in paths}
    shown = [d for d in loaded.diagnostics if not chosen or (d.span and _inside(d.span.file, chosen, settings.root))]
    ok = not any(d.severity == "error" for d in shown)
    if as_json:
        relations = [_relation_json(loaded, name) for name in loaded.catalog.relations]
        emit_json(
            {
                "ok": ok,
                "statements": loaded.statements,
                "relations": relations,
                "diagnostics": [d.json() for d in shown],
            }
        )
        return 0 if ok else 1
    if style in ("github", "sarif"):
        _show_beside_code(style, shown, settings.root)
        return 0 if ok else 1
    show_diagnostics(shown)
    count = sum(d.severity == "error" for d in shown)
    if ok:
        counts = (len(loaded.catalog.relations), len(loaded.queries))
        note(f"{loaded.statements} statements, {counts[0]} relations, {counts[1]} queries: ok")
    else:
        mistakes = f"{count} mistake{'s' if count != 1 else ''}"
        note(f"{mistakes} in {loaded.statements} statements; `ds errors NAME` explains one")
    return 0 if ok else 1


def _show_beside_code(style: str, diagnostics: Sequence[Diagnostic], root: Path) -> None:
    """Print diagnostics with paths from the repository's root, which may be above the project folder."""
    from ds_dagster.cli.diagnostic_formats import below, github_lines, sarif

    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    placed = below(diagnostics, root.relative_to(top))
    if style == "sarif":
        emit_json(sarif(placed))
        return
    for line in github_lines(placed):
        click.echo(line)


def _inside(file: str, chosen: set[str], root: Path) -> bool:
    path = (root / file).resolve()
    return any(path == Path(c).resolve() or Path(c).resolve() in path.parents for c in chosen)


def _relation_json(project: LoadedProject, name: QualifiedName) -> dict[str, object]:
    relation = project.catalog.relations[name]
    return {
        "fqn": str(name),
        "kind": relation.kind,
        "store": relation.store,
        "entity": relation.entity,
        "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in relation.columns],
        "key": list(relation.primary_key or relation.key.columns),
        "value_format": relation.value_format,
        "uri": uri_of(project, relation) if relation.columns else None,
        "delivery": delivery_of(project, relation),
        "mode": mode_text(relation) or None,
        "file": relation.span.file,
        "line": relation.span.line,
    }


@click.command("fmt")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit code 1 if a file would change.")
@click.option("--diff", "shows_diff", is_flag=True, help="Write nothing; print what would change.")
@project_option
@json_option
def fmt_command(
    paths: tuple[Path, ...], only_check: bool, shows_diff: bool, project: Path | None, as_json: bool
) -> int:
    """Format SQL files: keywords in upper case, each clause on its own line, comments where they are.

    PATHS are files and folders (default: the SQL folder of the project). Only spaces, line ends and the case of
    keywords change: the statements before and after are compared. A file with mistakes is not changed.
    """
    from ds_dagster.sql.formatting.files import differences, laid_out, sql_files

    layouts = [laid_out(path) for path in sql_files(paths or (settings_of(project, quiet=True).sql,))]
    is_dry = only_check or shows_diff
    changed, broken = [x for x in layouts if x.is_changed], [x for x in layouts if x.mistakes]
    for layout in changed if not is_dry else ():
        layout.write()
    ok = not broken and not (only_check and changed)
    if as_json:
        emit_json({"ok": ok, "files": [layout.json() for layout in layouts]})
        return 0 if ok else 1
    show_diagnostics([mistake for layout in broken for mistake in layout.mistakes])
    for layout in changed:
        if shows_diff:
            click.echo(differences(layout), nl=False)
        else:
            note(f"{'would lay out' if is_dry else 'laid out'} {layout.path}")
    note(f"{len(layouts)} files, {len(changed)} {'would change' if is_dry else 'changed'}, {len(broken)} with mistakes")
    return 0 if ok else 1


@click.command("lsp")
def lsp_command() -> int:
    """Serve an editor: mistakes, types, completion.

    A language server over standard input and output, which an editor starts. It needs `pip install
    'ds-dagster[editor]'`.
    """
    try:
        from ds_dagster.editor.server import sql_server
    except ModuleNotFoundError as problem:
        package = str(problem.name).partition(".")[0]
        if package not in ("pygls", "lsprotocol"):
            raise
        raise error("EDITOR_PACKAGE_MISSING", package=package) from problem
    if sys.stdin.isatty():
        note("an editor starts this server and talks to it; Ctrl-C ends it")
    sql_server().start_io()
    return 0


@click.command("explain")
@click.argument("relation")
@click.option("--level", type=click.Choice(["statement", "plan", "spark", "stages"]), default="plan", show_default=True)
@project_option
@json_option
def explain_command(relation: str, level: str, project: Path | None, as_json: bool) -> int:
    """Show one representation of the query that fills RELATION."""
    from ds_dagster.cli.explain import explain_level

    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings)
    name = find_relation(loaded, relation)
    if errors := [b for b in loaded.broken if b.name == name]:
        raise ProjectError(errors[0].diagnostics)
    if level == "spark" and not as_json:
        note("starting Spark")
    texts = explain_level(loaded, name, level, as_data=as_json)
    if as_json:
        emit_json({"relation": str(name), "level": level, "queries": texts})
        return 0
    for query, value in texts.items():
        if len(texts) > 1:
            click.echo(f"-- query {query}")
        click.echo(value if isinstance(value, str) else "")
    return 0


@click.command("lineage")
@click.argument("relation", required=False)
@click.option("--columns", is_flag=True, help="Column lineage instead of relations.")
@click.option("--mermaid", is_flag=True, help="A Mermaid diagram.")
@project_option
@json_option
def lineage_command(relation: str | None, columns: bool, mermaid: bool, project: Path | None, as_json: bool) -> int:
    """Show the graph of relations, or the columns of one RELATION or of all."""
    from ds_dagster.cli.lineage import column_lines, edges, mermaid_text, tree_lines

    if columns and mermaid:
        raise click.UsageError("a diagram shows relations: choose --columns or --mermaid")
    if mermaid and as_json:
        raise click.UsageError("--mermaid and --json are two formats: choose one")
    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings)
    chosen = find_relation(loaded, relation) if relation else None
    chosen_edges = edges(loaded, chosen)
    if as_json:
        emit_json(
            {
                "edges": [{"from": str(a), "to": str(b)} for a, b in chosen_edges],
                "columns": [
                    {"from": f"{s}.{c}", "to": f"{q.sink.name}.{column}"}
                    for query in loaded.queries.values()
                    for q in query.parts
                    if chosen is None or q.sink.name == chosen
                    for column, sources in q.lineage.items()
                    for s, c in sources
                ],
            }
        )
        return 0
    lines = (
        mermaid_text(loaded, chosen_edges)
        if mermaid
        else column_lines(loaded, chosen)
        if columns
        else tree_lines(loaded, chosen)
    )
    for line in lines:
        click.echo(line)
    return 0


@click.command("ls")
@click.argument("what", type=click.Choice(["stores", "entities", "relations"]), default="relations")
@click.argument("store", required=False)
@click.argument("path", nargs=-1)
@click.option("--details", is_flag=True, help="For entities: the facts of DESCRIBE ENTITY.")
@project_option
@json_option
def ls_command(
    what: str, store: str | None, path: tuple[str, ...], details: bool, project: Path | None, as_json: bool
) -> int:
    """List stores, relations, or entities STORE [PATH…].

    PATH is a place inside a store with tables: a database and a schema, or a folder.
    """
    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings)
    if what == "entities":
        return _entities(loaded, store, path, details, as_json)
    rows = _stores(loaded) if what == "stores" else _relations(loaded)
    if as_json:
        emit_json(rows)
    else:
        table(list(rows[0]) if rows else ["name"], [list(row.values()) for row in rows])
    return 0


def _stores(project: LoadedProject) -> list[dict[str, object]]:
    return [
        {"name": s.name, "kind": s.kind, "uris": s.properties["uris"].shown() if "uris" in s.properties else None}
        for s in project.catalog.stores.values()
    ]


def _relations(project: LoadedProject) -> list[dict[str, object]]:
    return [
        {
            "name": str(r.name),
            "kind": r.kind,
            "store": r.store,
            "entity": r.entity,
            "key": ", ".join(r.primary_key) or None,
            "filled by": ", ".join(q.name for q in project.queries_of(r.name)) or None,
            "at": f"{r.span.file}:{r.span.line}",
        }
        for r in project.catalog.relations.values()
    ]


def _entities(project: LoadedProject, store: str | None, path: tuple[str, ...], details: bool, as_json: bool) -> int:
    from ds_dagster.cli.entity_list import detailed, listed

    if store is None:
        raise click.UsageError("ls entities needs a store: ds ls entities STORE")
    definition = project.catalog.store(store)
    rows = detailed(project, definition, path) if details else listed(project, definition, path)
    if as_json:
        emit_json(rows)
    else:
        table(list(rows[0]) if rows else ["name"], [list(row.values()) for row in rows])
    return 0


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option(
    "--ci", type=click.Choice(["github", "gitlab"]), help="Also write a workflow; inside a project, only the workflow."
)
@json_option
def init_command(folder: Path, ci: str | None, as_json: bool) -> int:
    """Create a project in FOLDER: settings, definitions.py, workspace.yaml, dagster.yaml, an example, a test case."""
    from ds_dagster.local.template import write_project

    written = write_project(folder.resolve(), ci=ci or "")
    if as_json:
        emit_json({"folder": str(folder.resolve()), "files": [str(path) for path in written]})
        return 0
    for path in written:
        click.echo(path)
    place = "" if folder.resolve() == Path.cwd() else f"cd {quote(str(folder))}, "
    note(f"next: {place}ds check, ds test, ds up, dg dev -w workspace.yaml")
    return 0


def find_relation(project: LoadedProject, text: str) -> QualifiedName:
    """The name of a relation, from its full or short name; also of a relation with errors.

    Raises:
        UserError: UNKNOWN_RELATION with the nearest names.
    """
    name = QualifiedName.parse(text.lower(), project.settings.database, project.settings.schema)
    names = {*project.catalog.relations, *(b.name for b in project.broken)}
    if name in names:
        return name
    by_short = [other for other in names if other.name == text.lower()]
    if len(by_short) == 1:
        return by_short[0]
    raise error("UNKNOWN_RELATION", name=text, nearest=did_you_mean(name.name, [other.name for other in names]))
