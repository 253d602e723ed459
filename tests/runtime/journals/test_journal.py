"""The journal when something is wrong with it: each trouble has a name, and nothing is half written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from ds_dagster.errors import DsError, ExternalError, UserError
from ds_dagster.runtime.deciding.identity import Identity
from ds_dagster.runtime.engine import rest
from ds_dagster.runtime.journals import journal as journals
from ds_dagster.runtime.journals import rows, schema
from ds_dagster.runtime.journals.journal import Journal, meta, refuse_network_file_system
from ds_dagster.runtime.journals.records import Transition
from ds_dagster.settings import Settings
from tests.runtime.fakes import FakeClock, as_schema_4


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    opened = Journal.open(settings, {})
    opened.create()
    yield opened
    opened.close()


def history(journal: Journal) -> int:
    with journal.read() as connection:
        return len(rows.transitions(connection, "a", 100))


def write(journal: Journal) -> None:
    with journal.write() as connection:
        rows.add_transitions(connection, [Transition("a", 1.0, "state", "ABSENT", "STARTING")])


def condition(call: object, *arguments: object) -> str:
    with pytest.raises(DsError) as raised:
        call(*arguments)  # type: ignore[operator]
    assert raised.value.hint
    return raised.value.condition


def test_the_identity_is_made_once(journal: Journal, settings: Settings) -> None:
    assert Journal.open(settings, {}).create() == journal.identity()
    assert Journal.open(replace(settings, state=settings.state / "other"), {}).create() != journal.identity()


def test_an_engine_that_rests_notices_a_write(journal: Journal) -> None:
    clock = FakeClock()
    rest(clock, journal, clock.monotonic() + 0.25)
    assert clock.monotonic() == pytest.approx(100.25)
    clock.on_sleep = lambda: write(journal)
    rest(clock, journal, clock.monotonic() + 10.0)
    assert clock.monotonic() < 100.5


def test_ids_hold_only_what_brokers_accept_and_never_collide() -> None:
    identity = Identity("dev 1", "0" * 32)
    ids = {identity.job_id(name) for name in ("a b", "a-b", "a_b", "ä", "a.b")}
    assert len(ids) == 5
    assert all(character.isalnum() or character in "._-" for job in ids for character in job)
    assert all(job.isascii() for job in ids)


def test_a_locked_journal(journal: Journal, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(journals, "BUSY_SECONDS", 0.1)
    impatient = Journal.open(settings, {})
    other = sqlite3.connect(str(journal.local), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert condition(write, impatient) == "JOURNAL_LOCKED"
    assert history(impatient) == 0, "readers are not held up"
    other.execute("COMMIT")
    other.close()
    write(impatient)
    assert history(journal) == 1


def test_a_corrupt_journal(journal: Journal, settings: Settings) -> None:
    assert journal.local is not None
    write(journal)
    for beside in settings.state.glob("journal.db*"):
        beside.write_bytes(os.urandom(8192))
    assert condition(Journal.open(settings, {}).exists) == "JOURNAL_CORRUPT"
    assert condition(Journal.open(settings, {}).create) == "JOURNAL_CORRUPT"


def test_a_file_that_is_somebody_elses(settings: Settings) -> None:
    settings.state.mkdir()
    with sqlite3.connect(settings.state / "journal.db") as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    assert condition(Journal.open(settings, {}).create) == "JOURNAL_CORRUPT"


def test_a_folder_where_the_file_should_be(settings: Settings) -> None:
    (settings.state / "journal.db").mkdir(parents=True)
    assert condition(Journal.open(settings, {}).create) == "JOURNAL_UNREADABLE"


def test_a_file_where_the_folder_should_be(settings: Settings) -> None:
    settings.state.write_text("")
    assert condition(Journal.open(settings, {}).create) == "JOURNAL_UNREADABLE"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_full_disk_writes_nothing(settings: Settings, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    try:
        journal = Journal.open(replace(settings, state=place), {})
        journal.create()
        write(journal)
        with (place / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space"):
            while True:
                ballast.write(b"x" * 4096)

        def much() -> None:
            with journal.write() as connection:
                long = [Transition("a", 1.0, "state", "ABSENT", "STARTING", reason="x" * 2000)] * 500
                rows.add_transitions(connection, long)

        assert condition(much) == "JOURNAL_DISK_FULL"
        (place / "ballast").unlink()
        assert history(journal) == 1
        write(journal)
        assert history(journal) == 2
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_read_only_disk(settings: Settings, tmp_path: Path) -> None:
    place = tmp_path / "fixed"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    try:
        journal = Journal.open(replace(settings, state=place), {})
        journal.create()
        write(journal)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        for opened in (journal, Journal.open(replace(settings, state=place), {})):
            assert condition(write, opened) == "JOURNAL_READ_ONLY"
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_of_another_user(journal: Journal, settings: Settings) -> None:
    assert journal.local is not None
    journal.local.chmod(0)
    assert condition(Journal.open(settings, {}).exists) == "JOURNAL_UNREADABLE"
    journal.local.chmod(stat.S_IRUSR)
    assert condition(write, journal) == "JOURNAL_READ_ONLY"


def test_a_failed_transaction_leaves_nothing(journal: Journal) -> None:
    with pytest.raises(ZeroDivisionError), journal.write() as connection:
        rows.add_transitions(connection, [Transition("a", 1.0, "state", "ABSENT", "STARTING")])
        raise ZeroDivisionError
    assert history(journal) == 0


def test_a_newer_schema_is_refused_by_everyone(journal: Journal, settings: Settings) -> None:
    with journal.write() as connection:
        connection.execute(update(schema.META).where(schema.META.c.name == "schema").values(value="99"))
    for call in (
        Journal.open(settings, {}).exists,
        Journal.open(settings, {}).create,
        Journal.open(settings, {}).migrate,
    ):
        assert condition(call) == "JOURNAL_NEWER"


def test_an_older_schema_is_migrated_by_the_engine_only(
    journal: Journal, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = schema.SCHEMA_VERSION
    monkeypatch.setattr(schema, "SCHEMA_VERSION", now + 1)
    done: list[str] = []
    monkeypatch.setattr(schema, "MIGRATIONS", {now: lambda connection: done.append(meta(connection, "schema"))})
    later = Journal.open(settings, {})
    assert condition(later.create) == "JOURNAL_OLDER"
    later.migrate()
    assert done == [str(now)]
    assert later.create() == journal.identity()


def test_a_migration_that_fails_changes_nothing(
    journal: Journal, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = schema.SCHEMA_VERSION
    monkeypatch.setattr(schema, "SCHEMA_VERSION", now + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {now: lambda connection: connection.exec_driver_sql("ALTER TABLE gone")})
    with pytest.raises(ExternalError):
        Journal.open(settings, {}).migrate()
    monkeypatch.undo()
    assert Journal.open(settings, {}).exists()


STATUS_1 = """
CREATE TABLE ds_status (
    name VARCHAR(255) NOT NULL PRIMARY KEY, state VARCHAR(16) NOT NULL, since FLOAT NOT NULL,
    condition VARCHAR(64) NOT NULL, message TEXT NOT NULL, hint TEXT NOT NULL, detail TEXT NOT NULL,
    incarnation VARCHAR(32) NOT NULL, generation BIGINT NOT NULL, checkpoint_version INTEGER NOT NULL,
    fingerprint TEXT NOT NULL, batch BIGINT, rows BIGINT NOT NULL, rows_per_second FLOAT NOT NULL, lag_records BIGINT,
    lag_seconds FLOAT, watermark FLOAT, state_rows BIGINT NOT NULL, state_bytes BIGINT NOT NULL,
    late_rows BIGINT NOT NULL, bad_records BIGINT NOT NULL, beat FLOAT, next_retry FLOAT, attempts INTEGER NOT NULL,
    started FLOAT, progressed FLOAT, caught_up FLOAT
)
"""


def test_a_journal_of_the_first_version_is_migrated(journal: Journal, settings: Settings) -> None:
    as_schema_4(journal)
    with journal.write() as connection:
        connection.exec_driver_sql("DROP TABLE ds_status")
        connection.exec_driver_sql(STATUS_1)
        connection.exec_driver_sql(
            "INSERT INTO ds_status (name, state, since, condition, message, hint, detail, incarnation, generation, "
            "checkpoint_version, fingerprint, rows, rows_per_second, state_rows, state_bytes, late_rows, bad_records, "
            "attempts, batch) VALUES ('a', 'RUNNING', 1, '', '', '', '', 'i', 1, 1, 'f', 5, 0, 0, 0, 0, 0, 0, 7)"
        )
        connection.execute(update(schema.META).where(schema.META.c.name == "schema").values(value="1"))
    later = Journal.open(settings, {})
    later.migrate()
    with later.read() as connection:
        status = rows.statuses(connection)["a"]
    assert (status.rows, status.batch, status.lost_records, status.details, status.writer) == (5, 7, 0, {}, "")
    assert (status.streak, status.parameters) == ("", "")
    with later.write() as connection:  # what is written from here on has the shape of a new journal
        rows.save_statuses(connection, [replace(status, rows=9)], writer="w")
        assert rows.statuses(connection)["a"].rows == 9


@pytest.mark.parametrize("written", ["mysql://u:hunter2@h/d", "not a url", "sqlite:///elsewhere.db"])
def test_other_urls_are_refused_without_showing_them(settings: Settings, written: str) -> None:
    with pytest.raises(UserError) as raised:
        Journal.open(replace(settings, journal=written), {})
    assert raised.value.condition == "JOURNAL_URL_INVALID"
    assert "hunter2" not in str(raised.value)


def test_a_server_that_does_not_answer_is_named_without_its_password(settings: Settings) -> None:
    journal = Journal.open(replace(settings, journal="${URL}"), {"URL": "postgresql://u:hunter2@127.0.0.1:9/d"})
    with pytest.raises(ExternalError) as raised:
        journal.create()
    assert raised.value.condition == "JOURNAL_UNREACHABLE"
    assert "hunter2" not in str(raised.value) + repr(raised.value) + repr(journal)
    assert "127.0.0.1" in raised.value.message


def test_a_missing_reference_in_the_url_is_named(settings: Settings) -> None:
    with pytest.raises(UserError, match="JOURNAL_URL"):
        Journal.open(replace(settings, journal="${JOURNAL_URL}"), {})


@pytest.mark.parametrize(("kind", "ok"), [("ext4", True), ("nfs4", False), ("fuse.sshfs", False), ("tmpfs", True)])
def test_network_file_systems_are_refused(tmp_path: Path, kind: str, ok: bool) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/root / ext4 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\nproc /proc proc rw 0 0\n")
    if ok:
        refuse_network_file_system(tmp_path / "deep", mounts)
    else:
        assert condition(refuse_network_file_system, tmp_path / "deep", mounts) == "JOURNAL_NETWORK_FILE_SYSTEM"
        refuse_network_file_system(Path("/elsewhere"), mounts)


def test_the_journal_holds_after_its_writer_is_gone(journal: Journal, settings: Settings, tmp_path: Path) -> None:
    write(journal)
    shutil.copytree(settings.state, tmp_path / "copy")
    assert history(Journal.open(replace(settings, state=tmp_path / "copy"), {})) == 1
