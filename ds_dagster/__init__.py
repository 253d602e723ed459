"""Streaming SQL as Dagster assets, on Spark. Importing this starts no JVM, opens no socket and imports no driver."""

from __future__ import annotations

from ds_dagster.version import __version__ as __version__
