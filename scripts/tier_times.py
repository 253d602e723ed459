"""Say what the last run of each tier held and took, and where its time went.

Usage: python scripts/tier_times.py             prints the table
       python scripts/tier_times.py --write     writes it, with today's date, into docs/testing.md
       python scripts/tier_times.py TIER [N]    the N dearest files and tests of a tier (20), in seconds

It reads what scripts/tiers.py leaves in .cache/tiers. A test has the time of the fixtures it is the first to ask for.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts.tiers import RECORDS, ROOT, TIERS

PAGE = ROOT / "docs" / "testing.md"
TABLE = re.compile(r"(?s)(<!-- tiers -->\n).*?(<!-- /tiers -->)")


class Tier(NamedTuple):
    """What one run held and took; ``skipped`` are left out of ``tests``, ``processor`` is the time of all processes of
    the tier in seconds, None for a run that did not count it."""

    name: str
    tests: int
    skipped: int
    seconds: float
    processor: float | None


def tiers() -> Iterator[Tier]:
    """Tiers that ran, in the order in which they run."""
    for name in TIERS:
        path = RECORDS / f"{name}.xml"
        if path.exists():
            suite = ElementTree.parse(path).getroot().find("testsuite")
            assert suite is not None
            skipped = int(suite.attrib["skipped"])
            counted = path.with_suffix(".cpu")
            processor = float(counted.read_text(encoding="utf-8")) if counted.exists() else None
            seconds = float(suite.attrib["time"])
            yield Tier(name, int(suite.attrib["tests"]) - skipped, skipped, seconds, processor)


def table() -> str:
    """The tiers as a table of Markdown."""
    rows = ["| Tier | Tests | Skipped | Takes | Processor time |", "|---|---|---|---|---|"]
    for tier in tiers():
        processor = "" if tier.processor is None else f"{tier.processor:,.0f} s"
        rows.append(f"| {tier.name} | {tier.tests:,} | {tier.skipped} | {tier.seconds:.0f} s | {processor} |")
    return "\n".join(rows)


def write() -> None:
    """Put the table and the day into the page."""
    text = f"Measured on {datetime.now(timezone.utc):%Y-%m-%d}:\n\n{table()}\n"
    page = TABLE.sub(lambda mark: f"{mark[1]}{text}{mark[2]}", PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")


def dearest(name: str, count: int) -> Iterator[str]:
    """Lines for people: files, then tests."""
    files: dict[str, float] = defaultdict(float)
    tests: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(RECORDS / f"{name}.xml").getroot().iterfind(".//testcase[@classname]"):
        file, seconds = case.attrib["classname"], float(case.attrib["time"])
        files[file] += seconds
        tests[f"{file}::{case.attrib['name']}"] += seconds
    for times in (files, tests):
        dear = sorted(times.items(), key=lambda entry: -entry[1])[:count]
        yield from (f"{seconds:8.1f}  {place}" for place, seconds in dear)
        yield ""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write()
    elif sys.argv[1:]:
        print("\n".join(dearest(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 20)))
    else:
        print(table())
