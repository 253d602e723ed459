"""Addresses of documentation pages, if the documentation is published.

The base address is the variable ``DS_DOCS_URL`` (a company may host the site itself), else the project URL
``Documentation`` of the installed package. An unpublished package has none; then no address is printed, so that no
message carries a dead link. `ds errors NAME` shows the same text without a network.
"""

from __future__ import annotations

import importlib.metadata
import os
from functools import lru_cache

DISTRIBUTION = "ds-dagster"
VARIABLE = "DS_DOCS_URL"


def base_url() -> str:
    """Address of the site without a slash at its end; empty when there is none."""
    return (os.environ.get(VARIABLE) or _published()).rstrip("/")


@lru_cache(maxsize=1)
def _published() -> str:
    try:
        urls = importlib.metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    labelled: dict[str, str] = dict(text.split(", ", 1) for text in urls)
    return labelled.get("Documentation", "")


def condition_url(condition: str) -> str:
    """Address of a condition's page; empty when the documentation is not published."""
    base = base_url()
    return f"{base}/reference/errors/{condition}/" if base else ""
