"""A headless Chromium on the UI of ``dagster dev``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # for the helpers in tests.e2e, however pytest was started

from tests.e2e.dagster_dev import DagsterHouse

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
SIZE, SCALE = {"width": 1840, "height": 1040}, 0.87


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium of the machine; Playwright's own download is not needed."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium on the path (Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


@pytest.fixture(scope="session")
def studio(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterHouse]:
    """``dagster dev`` on the example project; asked for after the browser, so that nothing starts without one."""
    house = DagsterHouse(tmp_path_factory.mktemp("studio"), own_files=False)
    try:
        house.dev.wait_ready()
        yield house
    finally:
        house.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test when its scripts fail."""
    context = browser.new_context(viewport=SIZE, device_scale_factor=SCALE)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda problem: problems.append(str(problem)))
    yield opened
    context.close()
    assert not problems, problems
