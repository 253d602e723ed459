"""A person looks at the graph, materializes a stream and sees it green.

``DS_TEST_IMAGES=docs/images`` keeps the pictures for the README.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.dagster_dev import READY_SECONDS, DagsterHouse, path_of

pytestmark = pytest.mark.browser
STREAM = "desktop_clicks"
MILLIS = READY_SECONDS * 1000


def picture(page: Any, name: str) -> None:
    """Keep a picture where it was asked for."""
    folder = os.environ.get("DS_TEST_IMAGES")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def open_page(page: Any, studio: DagsterHouse, path: str) -> None:
    page.goto(f"{studio.dev.url}{path}", wait_until="domcontentloaded", timeout=MILLIS)


def test_a_stream_is_materialized_by_a_click(studio: DagsterHouse, page: Any) -> None:
    open_page(page, studio, f"/assets/{'/'.join(path_of(STREAM))}?view=overview")
    page.get_by_text("Clicks from desktop computers only.").first.wait_for(timeout=MILLIS)
    page.get_by_text("CREATE STREAM desktop_clicks AS").first.wait_for(timeout=MILLIS)
    page.get_by_role("button", name="Materialize").first.click(timeout=MILLIS)
    page.get_by_text(re.compile("Launched run|Starting run", re.IGNORECASE)).first.wait_for(timeout=MILLIS)
    page.get_by_text("Success").first.wait_for(timeout=MILLIS)
    assert studio.control.status(STREAM).state == "RUNNING"
    open_page(page, studio, f"/assets/{'/'.join(path_of(STREAM))}?view=checks")
    for check in ("running", "lag", "progress", "definition_current"):
        page.get_by_text(check).first.wait_for(timeout=MILLIS)
    page.get_by_text("Passed").first.wait_for(timeout=MILLIS)


def test_the_run_tells_what_happened(studio: DagsterHouse, page: Any) -> None:
    made = studio.dev.asset(STREAM)["assetMaterializations"]
    run = next(event["runId"] for event in made if event["runId"])
    open_page(page, studio, f"/runs/{run}")
    page.get_by_text("ds_streams").first.wait_for(timeout=MILLIS)
    page.get_by_text("Success").first.wait_for(timeout=MILLIS)
    page.get_by_text(f"{STREAM}: RUNNING").first.wait_for(timeout=MILLIS)
    picture(page, "run")


def test_the_graph_opens(studio: DagsterHouse, page: Any) -> None:
    open_page(page, studio, "/asset-groups")
    for name in ("user_clicks", "url_region_click_count", "url_visits", "region_clicks"):
        page.get_by_text(name, exact=True).first.wait_for(timeout=MILLIS)
    picture(page, "asset-graph")
