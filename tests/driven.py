"""A loader with the checkpoint of a job that dies behind every batch, so that tests speak of batch numbers alone."""

from __future__ import annotations

from typing import Any

from ds_dagster.catalog.io_spec import LoadResult
from ds_dagster.catalog.ledger import CheckpointTip, Tip

_LAST: dict[tuple[str, ...], int] = {}


class Driven:
    """Forwards everything to its loader. ``prepare()`` begins from a checkpoint whose last loaded batch is planned and
    not finished; a batch that is loaded again is one that a new run replays. With a tip that is given nothing is made
    up."""

    def __init__(self, loader: Any) -> None:
        self.__dict__["loader"] = loader
        self.__dict__["replays"] = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["loader"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.loader, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.loader, name)

    @property
    def _key(self) -> tuple[str, ...]:
        loader = getattr(self.loader, "files", self.loader)
        place = getattr(loader, "place", getattr(loader, "path", ""))
        return str(place), *loader.target.path, loader.identity.ledger

    def prepare(self, tip: CheckpointTip | None = None) -> None:
        self.__dict__["replays"] = tip is None
        last = _LAST.get(self._key)
        self.loader.prepare(tip or (CheckpointTip() if last is None else CheckpointTip.at(Tip(last))))

    def load(self, rows: Any, batch: int | Tip) -> LoadResult:
        batch = Tip(batch) if isinstance(batch, int) else batch
        if self.replays and batch.batch <= _LAST.get(self._key, -1):
            self.loader.prepare(CheckpointTip.at(batch))
        result: LoadResult = self.loader.load(rows, batch)
        _LAST[self._key] = batch.batch
        return result


def forget() -> None:
    """Every test has checkpoints of its own."""
    _LAST.clear()
