"""A person looks at the graph, materializes a stream and sees it green.

``DS_TEST_IMAGES=docs/images`` keeps the pictures for the README.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.e2e.clickstream import clicks, user
from tests.e2e.dagster_dev import READY_SECONDS, DagsterHouse, path_of
from tests.e2e.feeding import until

pytestmark = pytest.mark.browser
STREAM = "desktop_clicks"
MILLIS = READY_SECONDS * 1000
PICTURES = os.environ.get("DS_TEST_IMAGES", "")


def picture(page: Any, name: str) -> None:
    """Keep a picture where it was asked for."""
    if PICTURES:
        page.wait_for_load_state("networkidle")
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))


def open_page(page: Any, studio: DagsterHouse, path: str) -> None:
    page.goto(f"{studio.dev.url}{path}", wait_until="domcontentloaded", timeout=MILLIS)


def test_a_stream_is_materialized_by_a_click(studio: DagsterHouse, page: Any) -> None:
    open_page(page, studio, f"/assets/{'/'.join(path_of(STREAM))}?view=overview")
    page.get_by_text("Clicks from desktop computers only.").first.wait_for(timeout=MILLIS)
    page.get_by_text("CREATE STREAM desktop_clicks AS").first.wait_for(timeout=MILLIS)
    page.get_by_role("button", name="Materialize").first.click(timeout=MILLIS)
    page.get_by_text(re.compile("Launched run|Starting run", re.IGNORECASE)).first.wait_for(timeout=MILLIS)
    until(
        lambda: studio.dev.asset(STREAM)["assetMaterializations"],
        "the click's run has materialized it",
        READY_SECONDS,
        pause=0.5,
    )
    assert studio.control.status(STREAM).state == "RUNNING"
    open_page(page, studio, f"/assets/{'/'.join(path_of(STREAM))}?view=checks")
    for check in ("running", "lag", "progress", "definition_current"):
        page.get_by_text(check).first.wait_for(timeout=MILLIS)
    page.get_by_text("Passed").first.wait_for(timeout=MILLIS)


def test_the_run_tells_what_happened(studio: DagsterHouse, page: Any) -> None:
    made = studio.dev.asset(STREAM)["assetMaterializations"]
    run = next(event["runId"] for event in made if event["runId"])
    if PICTURES:
        run = everything(studio)
    open_page(page, studio, f"/runs/{run}")
    page.get_by_text("ds_streams").first.wait_for(timeout=MILLIS)
    page.get_by_text("Success").first.wait_for(timeout=MILLIS)
    page.get_by_text("Finished execution of run").first.wait_for(timeout=MILLIS)
    picture(page, "run")


def test_the_graph_opens(studio: DagsterHouse, page: Any) -> None:
    expanded = ",".join(f"global@global:{group}" for group in ("clickstream", "warehouse"))
    open_page(page, studio, f"/asset-groups?expanded={quote(expanded)}")
    page.get_by_text("Hide navigation").click(timeout=MILLIS)
    page.reload(wait_until="domcontentloaded", timeout=MILLIS)
    graph = page.locator("svg foreignObject")
    for name in ("clicks", "users", "user_clicks", "url_region_click_count", "region_clicks", "views", "multi_store"):
        graph.filter(has_text=name).first.wait_for(timeout=MILLIS)
    graph.filter(has_text=STREAM).filter(has_text="Materialized").first.wait_for(timeout=MILLIS)
    picture(page, "asset-graph")


def everything(studio: DagsterHouse) -> str:
    """Materialize and feed all of the example, so that a picture shows it at work; returns the run."""
    studio.run("user_clicks")
    studio.put("users", [user(f"User_{number}", 1) for number in range(40)], key="userid")
    studio.send("clicks", clicks(random.Random(1), 500, 0))
    names = [name for name, node in studio.dev.nodes().items() if node["isMaterializable"]]
    run = studio.dev.materialize(*names)
    assert run["status"] == "SUCCESS", run
    return str(run["runId"])
