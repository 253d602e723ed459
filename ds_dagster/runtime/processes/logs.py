"""The engine's own log: rotated, with every secret removed."""

from __future__ import annotations

import logging
import os
import sys
import time
from logging.handlers import RotatingFileHandler

from ds_dagster.redaction import Redactor
from ds_dagster.runtime.processes.places import Places

FILE_LIMIT = 10_000_000
FILES = 5
LEVEL_VARIABLE = "DS_LOG_LEVEL"
"""``debug`` in the engine's environment logs every batch."""


class _Redacting(logging.Formatter):
    """Formats in UTC and redacts the finished text, tracebacks included."""

    converter = staticmethod(time.gmtime)

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
        self._redact = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def log_engine(places: Places, redactor: Redactor, *, terminal: bool) -> logging.Logger:
    """Send the package's log to the engine's file, and with ``terminal`` also to standard error. ``redactor`` gets
    secrets as they are resolved."""
    logger = logging.getLogger("ds_dagster")
    logger.setLevel(logging.DEBUG if os.environ.get(LEVEL_VARIABLE, "").lower() == "debug" else logging.INFO)
    logger.propagate = False  # a library's root handler would write the same lines with their secrets
    places.engine_log.parent.mkdir(parents=True, exist_ok=True)
    handlers: list[logging.Handler] = [
        RotatingFileHandler(places.engine_log, maxBytes=FILE_LIMIT, backupCount=FILES, encoding="utf-8", delay=True)
    ]
    if terminal:
        handlers.append(logging.StreamHandler(sys.stderr))
    for handler in handlers:
        handler.setFormatter(_Redacting(redactor))
        logger.addHandler(handler)
    return logger


def stop_logging(logger: logging.Logger) -> None:
    """Close the handlers of :func:`log_engine`."""
    logger.propagate = True
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
