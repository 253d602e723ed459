"""Commands that print figures: metrics (of engines and jobs, for Prometheus), size (what the project needs)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ds_dagster.cli.output import Seconds, emit_json, json_option, note, project_option, settings_of, table
from ds_dagster.cli.results.watching import until_interrupted
from ds_dagster.errors import ProjectError
from ds_dagster.project.load import load_project
from ds_dagster.runtime.control import Control
from ds_dagster.runtime.deciding.placing import shown_pool
from ds_dagster.runtime.sizing.coefficients import load_coefficients
from ds_dagster.runtime.sizing.estimate import LARGEST_HEAP, QuerySize, SizeGoal, Sizing, sizings_of
from ds_dagster.runtime.sizing.expected import expected_load

FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


def _address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Host and port of ``[HOST:]PORT``; without a host 127.0.0.1, which only this machine reaches."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not a valid address: write PORT or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


@click.command("metrics")
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    callback=_address,
    help="Serve /metrics and /health there until Ctrl-C (0.0.0.0:9464: to other machines too).",
)
@project_option
def metrics_command(listen: tuple[str, int] | None, project: Path | None) -> int:
    """Print engines and jobs in Prometheus' text format.

    /health is 200 while every query that should run does, else 503 with the names of the others.
    """
    from ds_dagster.cli.metrics import Look, MetricsServer, exposition

    control = Control.open(settings_of(project))

    def looked() -> Look:
        return Look(control.engines(), control.statuses())

    if listen is None:
        click.echo(exposition(looked()).decode(), nl=False)
        return 0
    with MetricsServer(*listen, looked) as server, until_interrupted():
        note(f"serving {server.url}/metrics and /health until Ctrl-C")
        server.serve_forever()
    return 0


@click.command("size")
@click.option("--rows", multiple=True, metavar="[RELATION=]N", help="Rows per second of a relation.")
@click.option("--keys", multiple=True, metavar="[QUERY=]N", help="Different keys in a query's state.")
@click.option("--bytes", "sizes", multiple=True, metavar="[RELATION=]N", help="Bytes of a record (default: 300).")
@click.option("--load", type=FILE, help="TOML file with tables rows, keys and bytes; options win.")
@click.option("--measured", is_flag=True, help="Use the figures of running jobs for rows and keys that are not stated.")
@click.option(
    "--batch-seconds",
    type=Seconds(min=0.05),
    default=1.0,
    show_default=True,
    help="How long a batch may take.",
)
@click.option("--host-cores", type=click.IntRange(min=1), help="Cores of one engine's machine (default: 16).")
@click.option("--coefficients", type=FILE, help="TOML file with figures measured on your machine.")
@project_option
@json_option
def size_command(
    rows: tuple[str, ...],
    keys: tuple[str, ...],
    sizes: tuple[str, ...],
    load: Path | None,
    measured: bool,
    batch_seconds: float,
    host_cores: int | None,
    coefficients: Path | None,
    project: Path | None,
    as_json: bool,
) -> int:
    """Compute cores, memory, disk and partitions for the load you expect, and which limit today's settings reach first.

    A number without a name is for all relations or queries without a number of their own:
    `ds size --rows 5000 --keys 100000`.
    """
    settings = settings_of(project, quiet=as_json)
    loaded = load_project(settings.root, settings=settings)
    if loaded.errors:
        raise ProjectError(loaded.errors)
    expected = expected_load(loaded, {"rows": rows, "keys": keys, "bytes": sizes}, load)
    if measured:
        expected = expected.with_measured(Control.open(settings).statuses())
    sizings = sizings_of(loaded, expected, load_coefficients(coefficients), SizeGoal(batch_seconds, host_cores))
    if as_json:
        pools = {pool: sizing_json(sizing) for pool, sizing in sizings.items() if pool}
        emit_json({**sizing_json(sizings[""]), "compute_pools": pools})
    else:
        _print_all(sizings, batch_seconds)
    return 0


def sizing_json(sizing: Sizing) -> Mapping[str, Any]:
    """The answer for one engine as data; bytes and seconds are numbers."""
    return {
        "engines": sizing.engines,
        "cores": sizing.cores,
        "heap_mb": sizing.heap_megabytes,
        "pod_mb": sizing.pod_megabytes,
        "disk_bytes": round(sizing.disk),
        "partitions": sizing.partitions,
        "slots": sizing.slots,
        "batch_seconds": round(sizing.batch_seconds, 3),
        "least_batch_seconds": round(sizing.least_batch_seconds, 3),
        "queries": [_query_json(query) for query in sizing.queries],
        "limits": [
            {"name": limit.name, "share": round(limit.share, 4), "ends_at_load": limit.factor, "about": limit.about}
            for limit in sizing.limits
        ],
        "growth": list(sizing.growth),
        "better_on_disk": list(sizing.on_disk),
        "not_measured": [
            {"name": figure.name, "value": figure.value, "unit": figure.unit, "reason": figure.taken}
            for figure in sizing.taken
        ],
    }


def _query_json(query: QuerySize) -> Mapping[str, Any]:
    demand = query.demand
    return {
        "query": demand.query,
        "rows_in": demand.rows_in,
        "rows_out": demand.rows_out,
        "cores": round(demand.cores, 4),
        "state_bytes": round(demand.state),
        "state_on_heap": demand.on_heap,
        "disk_bytes": round(query.disk),
        "partitions": query.partitions,
        "batch_seconds": round(query.batch_seconds, 3),
        "batch_rows": round(query.batch_rows),
        "measured": demand.measured,
        "steps": [
            {"step": step.name, "rows": step.rows, "kept": round(step.kept), "bytes": round(step.bytes)}
            for step in demand.steps
        ],
    }


def _print_all(sizings: Mapping[str, Sizing], batch_seconds: float) -> None:
    for pool, sizing in sizings.items():
        if len(sizings) > 1:
            click.echo(("\n" if pool else "") + shown_pool(pool) + "\n")
        _print(sizing, batch_seconds)
    unmeasured = {figure.name for sizing in sizings.values() for figure in sizing.taken}
    note(f"{len(unmeasured)} figures of this estimate were not measured: `ds size --json` lists them with the reason")


def _print(sizing: Sizing, batch_seconds: float) -> None:
    headers = ("query", "rows/s in", "rows/s out", "cores", "state MB", "disk MB", "partitions", "batch ms")
    table(headers, [_cells(query) for query in sizing.queries], right=range(1, len(headers)))
    click.echo()
    each = " each" if sizing.engines > 1 else ""
    needs = [
        ("engines", f"{sizing.engines}"),
        ("cores", f"{sizing.cores}{each}"),
        ("memory", f"{sizing.heap_megabytes:,} MB of heap{each}; machine or pod {sizing.pod_megabytes:,} MB"),
        ("disk", f"{sizing.disk / 1e9:,.2f} GB for checkpoints"),
        ("partitions", f"{sizing.partitions} of state (spark.sql.shuffle.partitions), and at least as many of topics"),
        ("task slots", f"{sizing.slots} (`cores` of the engine), for real-time mode" if sizing.slots else ""),
        ("longest batch", f"{sizing.batch_seconds * 1000:,.0f} ms"),
    ]
    table(("needs", ""), [need for need in needs if need[1]])
    click.echo()
    table(
        ("today", "used", "ends at"),
        [(limit.about, f"{limit.share:.0%}", _end(limit.factor)) for limit in sizing.limits],
    )
    if sizing.batch_seconds > batch_seconds:
        note(_too_long(sizing, batch_seconds))
    if sizing.engines > 1:
        note("one engine is not enough: run queries in a compute pool, or give its machine more cores (--host-cores)")
    if sizing.heap_megabytes > LARGEST_HEAP:
        note(
            f"{sizing.heap_megabytes:,} MB are more than the heap of one engine should have ({LARGEST_HEAP:,} MB): "
            "keep fewer keys (windows, retention), or divide the topics into several projects"
        )
    for text in sizing.on_disk:
        note(text)
    for text in sizing.growth:
        note(f"state grows without end: {text}")


def _too_long(sizing: Sizing, batch_seconds: float) -> str:
    """Why batches are longer than ``batch_seconds``."""
    least = f"{sizing.least_batch_seconds:.2f} s"
    if sizing.least_batch_seconds >= batch_seconds:
        return f"no number of cores makes every batch as short as {batch_seconds:g} s: one takes {least} without rows"
    return f"a batch is as short as {batch_seconds:g} s only with more cores than rows need: it takes {least} at best"


def _cells(query: QuerySize) -> tuple[object, ...]:
    demand = query.demand
    numbers = (round(demand.rows_in), round(demand.rows_out), f"{demand.cores:.2f}")
    sizes = (f"{demand.state / 1e6:,.1f}", f"{query.disk / 1e6:,.1f}")
    millis = "-" if demand.slots else round(query.batch_seconds * 1000)
    return (demand.query, *numbers, *sizes, query.partitions, millis)


def _end(factor: float | None) -> str:
    return "-" if factor is None else f"{factor:,.1f} × the load"
