"""``ds metrics``: engines and jobs for Prometheus, once or over HTTP."""

from __future__ import annotations

from pathlib import Path

import click

from ds_dagster.cli.output import note, project_option, settings_of
from ds_dagster.runtime.control import Control


def _address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Host and port of ``[HOST:]PORT``; this machine alone when no host is written."""
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
    """Engines and jobs in Prometheus' text format.

    /health is 200 while every query that should run does, else 503 with the names of the others.
    """
    from ds_dagster.cli.metrics import Look, application, exposition

    control = Control.open(settings_of(project))

    def looked() -> Look:
        return Look(control.engines(), control.statuses())

    if listen is None:
        click.echo(exposition(looked()).decode(), nl=False)
        return 0
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            """A scrape is no event."""

    with make_server(*listen, application(looked), handler_class=Quiet) as server:
        host, port = server.server_address[:2]
        note(f"serving http://{host!s}:{port}/metrics and /health until Ctrl-C")
        server.serve_forever()
    return 0
