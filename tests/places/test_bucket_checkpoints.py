"""Checkpoints in a bucket: whatever is done with one ends as it does on disk, and of two that exchange a checkpoint one
wins."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ds_dagster.catalog.ledger import Tip
from ds_dagster.cli.online import store_findings
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError
from ds_dagster.places.bucket import NEW, Bucket, BucketAddress
from ds_dagster.places.bucket_path import BucketPath
from ds_dagster.places.checkpoint_settings import CheckpointSettings
from ds_dagster.places.trees import Place, below, copy_tree, files_below, write_whole
from ds_dagster.project.load import compile_texts
from ds_dagster.runtime.checkpoint_files import (
    current_folder,
    exchange,
    exchange_grown,
    grown_folder,
    new_folder,
    put_checkpoint,
)
from ds_dagster.runtime.checkpoint_log import copy_without_state, kept_batches, rewind_checkpoint
from ds_dagster.runtime.checkpoint_switch import plan_switch
from ds_dagster.runtime.checkpoints import Checkpoints
from ds_dagster.runtime.deciding.identity import Identity
from ds_dagster.runtime.savepoints import Savepoint, Savepoints, put_savepoint, tip_of
from ds_dagster.settings import Settings
from tests.fixtures.lake import s3_bucket
from tests.runtime.test_checkpoint_switch import OWN, checkpoint, entry

TEXTS = {"ds-sources.json": '{"a": "topic-1"}', "ds-targets.json": '{"k.out": "topic-2"}', "sources/a/0": "first"}
FORMER = {4: entry(60, 30, 6000)}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with s3_bucket("checkpoints") as options:
        login = {name: options[name] for name in ("access_key_id", "secret_access_key", "endpoint_url")}
        yield Bucket(BucketAddress("checkpoints", **login))


@pytest.fixture
def root(bucket: Bucket, request: pytest.FixtureRequest) -> BucketPath:
    return BucketPath(bucket, f"a prefix/{request.node.name}".replace("[", "-").replace("]", ""))


def filled(root: Place, work: Path) -> Place:
    """Two versions of a query: ``v2`` with batches 3 to 7, ``v1`` with batch 4; returns the folder of ``v2``."""
    shutil.rmtree(work, ignore_errors=True)
    place = checkpoint(work / "v2", OWN, 7)
    for name, text in TEXTS.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    checkpoint(work / "v1", FORMER, 4)
    copy_tree(work, root)
    return root / "v2"


def texts(place: Place) -> dict[str, str]:
    """Path and content of each file; the times and the id that a new checkpoint gets are the same each time."""
    found = {parts: below(place, parts).read_text(encoding="utf-8") for parts, _ in files_below(place)}
    return {"/".join(parts): text for parts, text in found.items() if parts != ("metadata",)}


def rewinds(place: Place, _: Path) -> object:
    rewind_checkpoint(place, Tip(5), Tip(6))
    return kept_batches(current_folder(place))


def grows(place: Place, _: Path) -> object:
    folder = grown_folder(place)
    copy_without_state(place, folder)
    write_whole(folder / "state" / "0" / "0" / "8.snapshot", b"grown")
    exchange_grown(place, folder)
    return kept_batches(current_folder(place))


def switches(place: Place, _: Path) -> object:
    former = place.with_name("v1")
    return [plan_switch("q@2", current_folder(place), former, 4, has_state=True) for _ in range(2)]


def restores(place: Place, work: Path) -> object:
    about = Savepoint("", "q", "job", 0, 2, Tip(0), 17.0, '{"name": "q"}', work)
    saved = Savepoints(work / "saved").take("one", place, about, has_state=True)
    planned = put_savepoint(saved, place.with_name("v3"), entry(80, 40, 8000), is_fork=True)
    return saved.tip, planned, saved.entry, texts(current_folder(place.with_name("v3")))


def continues(place: Place, _: Path) -> object:
    tip = tip_of(place, 6)
    assert tip is not None
    put_checkpoint(place, tip, named=False)
    return kept_batches(current_folder(place))


@pytest.mark.parametrize("act", [rewinds, grows, switches, restores, continues])
def test_it_ends_as_on_disk(root: BucketPath, tmp_path: Path, act: Callable[[Place, Path], object]) -> None:
    on_disk, in_bucket = (filled(place, tmp_path / "work") for place in (tmp_path / "disk", root))
    before = texts(in_bucket)
    assert act(in_bucket, tmp_path / "bucket-work") == act(on_disk, tmp_path / "disk-work")
    ends = [texts(current_folder(place)) for place in (on_disk, in_bucket)]
    if act is continues:  # it has the time of its making
        ends = [{name: text for name, text in end.items() if not name.startswith("offsets")} for end in ends]
    assert ends[0] == ends[1]
    assert act is switches or texts(in_bucket) == before, "what was there is kept"


def test_one_of_two_exchanges_wins(root: BucketPath, tmp_path: Path) -> None:
    place = filled(root, tmp_path / "work")
    first, second = new_folder(place), new_folder(place)
    for folder in (first, second):
        write_whole(folder / "metadata", folder.name.encode())
    exchange(place, first)
    assert _condition(lambda: exchange(place, second)) == "CHECKPOINT_EXCHANGED"
    assert current_folder(place) == first and current_folder(place.with_name("v1")).name == "v1"
    exchange(first, second)
    assert current_folder(place) == second


def test_folders_of_former_versions_and_contents_are_found(root: BucketPath, tmp_path: Path) -> None:
    checkpoints = Checkpoints(root, Identity("dev", "0" * 32))
    place = filled(checkpoints.path("q", 2).parent, tmp_path / "work")
    assert checkpoints.verify("q", 2, started=True, progressed=True) == place
    rewind_checkpoint(place, Tip(5))
    now = checkpoints.verify("q", 2, started=True, progressed=True)
    assert now != place and kept_batches(now).finished == 5
    assert _condition(lambda: checkpoints.verify("q", 2, started=False, progressed=False)) == "CHECKPOINT_UNKNOWN"
    assert _condition(lambda: checkpoints.verify("q", 7, started=True, progressed=True)) == "CHECKPOINT_MISSING"
    old = checkpoints.old({"q": 2, "other": 1})
    assert sorted((item.version, item.path.name) for item in old) == [(1, "v1"), (2, "v2")]
    assert all(item.size for item in old)
    for item in old:
        checkpoints.delete(item)
    assert not checkpoints.old({"q": 2}) and kept_batches(now).finished == 5
    checkpoints.delete_all("q")
    assert not list(files_below(root))


def test_the_bucket_is_checked(bucket: Bucket, root: BucketPath, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.check(root.key)
    assert not list(files_below(root))
    assert bucket.write(root.key, b"1", NEW) and not bucket.write(root.key, b"2", NEW)
    gone = Bucket(replace(bucket.address, name="no-such-bucket"))
    assert _condition(lambda: gone.check("")) == "CHECKPOINT_BUCKET_MISSING"
    silent = Bucket(replace(bucket.address, endpoint_url="http://127.0.0.1:9"))
    assert _condition(lambda: silent.check("")) == "CHECKPOINT_BUCKET_UNREACHABLE"
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    nobody = Bucket(replace(bucket.address, access_key_id="", secret_access_key=""))
    assert _condition(lambda: nobody.check("")) == "CHECKPOINT_BUCKET_REFUSED"
    write = Bucket.write
    monkeypatch.setattr(Bucket, "write", lambda self, key, content, _="": write(self, key, content))
    assert _condition(lambda: bucket.check("")) == "CHECKPOINT_BUCKET_OVERWRITES"


def test_what_the_service_refuses_is_named(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "MethodNotAllowed", "Message": "not here"}}, "PutObject")

    monkeypatch.setattr(bucket._client, "put_object", refuses)
    assert _condition(lambda: bucket.check("")) == "CHECKPOINT_BUCKET_FAILED"


def test_check_online_looks_at_the_bucket(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def findings(name: str) -> list[Diagnostic]:
        there = CheckpointSettings(f"s3://{name}", "", bucket.address.endpoint_url, "${KEY}", "${SECRET}")
        settings = Settings(root=tmp_path, sql=tmp_path, state=tmp_path, checkpoints=there)
        return list(store_findings(compile_texts([], settings), 60))

    (unset,) = findings("checkpoints")
    assert (unset.condition, "KEY" in unset.message) == ("CHECKPOINTS_NOT_USABLE", True)
    monkeypatch.setenv("KEY", "marked-key")
    monkeypatch.setenv("SECRET", "marked-secret")
    assert findings("checkpoints") == []
    (missing,) = findings("no-such-bucket")
    assert "the bucket no-such-bucket of the checkpoints does not exist" in missing.message


def _condition(call: Callable[[], Any]) -> str:
    with pytest.raises(DsError) as refused:
        call()
    assert "marked-secret" not in f"{refused.value} {refused.value.detail}"
    return refused.value.condition
