"""Errands of versions that two engines may carry out at the same time: a query has moved to another compute pool."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ds_dagster.engine import changelog_hand_over
from ds_dagster.errors import DsError, error
from ds_dagster.runtime.checkpoints import Checkpoints
from ds_dagster.runtime.deciding.identity import Identity
from tests.runtime.fakes import query


class Operations:
    """Of a store in which somebody else drops an entity between our look and our call."""

    def __init__(self, problem: DsError) -> None:
        self.problem = problem

    def path_of(self, relation: Any) -> tuple[str, ...]:
        return (relation.entity,)

    def describe(self, path: tuple[str, ...]) -> object:
        return path

    def drop(self, path: tuple[str, ...]) -> None:
        raise self.problem


def drop_meeting(problem: DsError, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = SimpleNamespace(operations=lambda: Operations(problem), close=lambda: None)
    kind = SimpleNamespace(admin=lambda store, resolver: admin)
    job = SimpleNamespace(query=query("v", "t"), store=lambda sink: (None, kind, None))
    monkeypatch.setattr(changelog_hand_over, "entity_of", lambda job, sink, version: f"{sink.entity}.{version}")
    changelog_hand_over.drop_entity(job, 2)  # type: ignore[arg-type]


def test_an_entity_that_another_engine_drops_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_meeting(error("ENTITY_NOT_FOUND", entity="v.2", store="k", nearest="v"), monkeypatch)
    with pytest.raises(DsError) as problem:
        drop_meeting(error("STORE_CALL_FAILED", store="k", action="delete the topic v.2"), monkeypatch)
    assert problem.value.condition == "STORE_CALL_FAILED"


@pytest.mark.parametrize("is_half_done", [True, False])
def test_a_checkpoint_that_another_engine_deletes_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_half_done: bool
) -> None:
    checkpoints, delete = Checkpoints(tmp_path, Identity("dev", "0" * 32)), shutil.rmtree
    folder = checkpoints.path("v@2", 1)
    (folder / "state").mkdir(parents=True)

    def other_is_faster(path: Path) -> None:
        monkeypatch.setattr(shutil, "rmtree", delete)
        delete(path / "v1" / "state" if is_half_done else path)
        raise FileNotFoundError(str(path))

    monkeypatch.setattr(shutil, "rmtree", other_is_faster)
    checkpoints.delete_all("v@2")
    assert not folder.parent.exists()
