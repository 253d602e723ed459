"""Engines and jobs as Prometheus metrics, with the figures of ``ds ps``, and a health check."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from threading import Lock
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from ds_dagster.errors import DsError, error
from ds_dagster.figures import FIGURES, Figure
from ds_dagster.runtime.status import EngineStatus, JobStatus

Application = Callable[[Mapping[str, object], Callable[..., object]], Iterable[bytes]]
"""A WSGI application (PEP 3333)."""
QUERY = ("query", "version")
ENGINE = ("engine",)
TEXT = "text/plain; charset=utf-8"
UNAVAILABLE = "503 Service Unavailable"
SILENT_SECONDS = 30
"""A connection without a request is closed after this time."""


@dataclass(frozen=True, slots=True)
class Look:
    """All engines and jobs at one moment, from the journal."""

    engines: Sequence[EngineStatus]
    jobs: Sequence[JobStatus]

    def down(self) -> Sequence[str]:
        """Names of jobs that should run but do not."""
        return [job.name for job in self.jobs if job.is_down]


class JournalCollector(Collector):
    """The metrics of one :class:`Look`."""

    def __init__(self, look: Look) -> None:
        self.look = look

    def collect(self) -> Iterable[Metric]:
        """Engines first, then states, then every figure of :data:`FIGURES`."""
        yield self._engines()
        yield from self._states()
        for field, figure in FIGURES.items():
            yield self._figure(field, figure)

    def _engines(self) -> Metric:
        up = GaugeMetricFamily("ds_engine_up", "1 while the engine runs", labels=ENGINE)
        for engine in self.look.engines:
            up.add_metric([engine.name], float(engine.state == "RUNNING"))
        return up

    def _states(self) -> Iterator[Metric]:
        down = GaugeMetricFamily("ds_query_down", "1 while a query that should run does not", labels=QUERY)
        state = GaugeMetricFamily("ds_query_state", "1 for the state a query is in", labels=(*QUERY, "state"))
        attempts = GaugeMetricFamily("ds_query_attempts", "starts since the query was healthy", labels=QUERY)
        for job in self.look.jobs:
            labels = _labels(job)
            down.add_metric(labels, float(job.is_down))
            state.add_metric([*labels, job.state], 1.0)
            attempts.add_metric(labels, job.attempts)
        yield from (down, state, attempts)

    def _figure(self, field: str, figure: Figure) -> Metric:
        values = [(_labels(job), value) for job in self.look.jobs if (value := getattr(job, field)) is not None]
        names = [*QUERY, "name"] if figure.unit == "by name" else list(QUERY)
        family = _family(figure, names)
        for labels, value in values:
            for extra, number in _numbers(value):
                family.add_metric([*labels, *extra], number)
        return family


def _family(figure: Figure, labels: Sequence[str]) -> CounterMetricFamily | GaugeMetricFamily:
    """Figures that add up over batches are counters, which begin at 0 with each start of a query; others are gauges."""
    name = f"ds_query_{figure.name}" + ("_timestamp_seconds" if figure.unit == "moment" else "")
    kind = CounterMetricFamily if figure.over_batches == "sum" else GaugeMetricFamily
    return kind(name, figure.meaning, labels=labels)


def _labels(job: JobStatus) -> list[str]:
    return [job.of, str(job.version)]


def _numbers(value: object) -> Iterator[tuple[Sequence[str], float]]:
    """Numbers of a figure with their extra labels: for a figure by name, the name."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            number = part.get("rows") if isinstance(part, Mapping) else part
            if isinstance(number, int | float):
                yield (str(name),), float(number)
    elif isinstance(value, int | float):
        yield (), float(value)


def exposition(look: Look) -> bytes:
    """The look in Prometheus' text format (version 0.0.4)."""
    registry = CollectorRegistry()
    registry.register(JournalCollector(look))
    return generate_latest(registry)


def application(looked: Callable[[], Look]) -> Application:
    """``/metrics`` and ``/health`` over HTTP.

    Args:
        looked: reads the journal; called once for each request.

    Returns:
        A WSGI application. ``/metrics`` answers with the metrics; ``/health`` with 200 if every query that should run
        does, else with 503 and the names of the others. Both answer 503 with the reason while the journal cannot be
        read; any other path is 404.
    """

    def answer(environ: Mapping[str, object], start: Callable[..., object]) -> Iterable[bytes]:
        status, kind, body = _answer(str(environ["PATH_INFO"]), looked)
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    return answer


def _answer(path: str, looked: Callable[[], Look]) -> tuple[str, str, bytes]:
    if path not in ("/metrics", "/health"):
        return "404 Not Found", TEXT, b"/metrics or /health\n"
    try:
        look = looked()
    except DsError as problem:
        return UNAVAILABLE, TEXT, f"{problem}\n".encode()
    if path == "/metrics":
        return "200 OK", CONTENT_TYPE_PLAIN_0_0_4, exposition(look)
    down = look.down()
    body = f"down: {', '.join(down)}\n" if down else "ok\n"
    return (UNAVAILABLE if down else "200 OK"), TEXT, body.encode()


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves :func:`application` at an address; a connection without a request does not block others.

    Args:
        host, port: to listen on; port 0: any free port.
        looked: reads the journal; called for one request at a time.

    Raises:
        UserError: METRICS_ADDRESS_UNUSABLE.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, looked: Callable[[], Look]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        one_at_a_time = Lock()

        def look() -> Look:
            with one_at_a_time:
                return looked()

        try:
            super().__init__((host, port), _Quiet)
        except OSError as problem:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            reason = problem.strerror or str(problem)
            raise error("METRICS_ADDRESS_UNUSABLE", address=address, reason=reason) from problem
        self.set_app(application(look))

    @property
    def url(self) -> str:
        """Address of the server."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if self.address_family == socket.AF_INET6 else f"http://{host!s}:{port}"

    def handle_error(self, *_: object) -> None:
        """Log nothing about connections that break or stay silent; the handler reports failures of answers."""


class _Quiet(WSGIRequestHandler):
    timeout = SILENT_SECONDS

    def log_message(self, *_: object) -> None:
        """Log nothing about requests."""
