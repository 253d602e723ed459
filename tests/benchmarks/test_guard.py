"""The verdict of ``make bench-guard``: what of two commits' ratios is slower."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import guard
from benchmarks.guard import Line, compared, slower


def test_medians_of_what_both_commits_have() -> None:
    here = [{"filter": 1.0, "new": 9.0}, {"filter": 3.0, "new": 9.0}, {"filter": 2.0, "new": 9.0}]
    there = [{"filter": 2.5, "gone": 1.0}] * 3
    assert compared(here, there) == (Line("filter", 2.0, 2.5),)


@pytest.mark.parametrize(("here", "is_slower"), [(0.89, True), (0.91, False), (1.5, False)])
def test_a_tenth_is_allowed(here: float, is_slower: bool) -> None:
    assert bool(slower([Line("filter", here, 1.0)], 0.1)) == is_slower


@pytest.mark.parametrize("only", ["filter,latency", "cdc_many/1"])
def test_items_in_engines_are_refused(only: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        guard.main(["--only", only])
    assert "engines run the installed package" in capsys.readouterr().err


def test_both_commits_run_in_turns_and_leave_no_work_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    trees: list[Path] = []

    def measured(tree: Path, only: str, share: str) -> guard.Ratios:
        trees.append(tree)
        assert (tree / "benchmarks" / "__main__.py").is_file()
        return {only: 1.0 if tree == guard.ROOT else 2.0}

    monkeypatch.setattr(guard, "measured", measured)
    assert guard.main(["--against", "HEAD", "--only", "filter", "--rounds", "2"]) == 1
    ours = [tree == guard.ROOT for tree in trees]
    assert ours == [True, False, False, True]
    left = subprocess.run(["git", "worktree", "list"], cwd=guard.ROOT, capture_output=True, text=True, check=True)
    assert "ds-guard-" not in left.stdout
