"""After everything else has run: marked secrets stand in no file, log, record or argument."""

from __future__ import annotations

import dataclasses
import random
import subprocess
from pathlib import Path

from tests.e2e.clickstream import USERS, clicks, user
from tests.e2e.feeding import KINESIS_SECRET, House


def places(root: Path, secret: str) -> list[Path]:
    """Files that hold a text, whatever they are."""
    wanted, found = secret.encode(), []
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and wanted in path.read_bytes():
            found.append(path)
    return found


def test_no_secret_is_written_anywhere(house: House) -> None:
    house.start("user_clicks", "desktop_clicks", "url_region_click_count")
    house.put("users", [user(name, 1) for name in USERS], key="userid")
    house.send("clicks", clicks(random.Random(1), 10, 0))
    loaded = house.load("region_clicks")
    assert loaded.state == "FINISHED", loaded
    password = (house.state / "secrets" / "postgres").read_text().strip()
    assert len(password) > 10
    assert places(house.root, KINESIS_SECRET) == [house.root / ".env"]
    assert set(places(house.root, password)) == {house.state / "secrets" / "postgres"}


def test_no_secret_is_told(house: House) -> None:
    control, project = house.control, house.project
    password = (house.state / "secrets" / "postgres").read_text().strip()
    told = [repr(project), repr(control), repr(project.catalog), str(control.engines()), str(control.statuses())]
    told += [str(dataclasses.asdict(one)) for name in project.queries for one in control.transitions(name)]
    told += [str(control.requests(name)) for name in project.queries]
    processes = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    environment = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (house.python(), house.jvm())).decode(
        errors="replace"
    )
    for secret in (KINESIS_SECRET, password):
        assert not [text for text in (*told, processes, environment) if secret in text]
