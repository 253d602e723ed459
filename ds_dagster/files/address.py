"""Folders and buckets with plain files: list, read, write, delete (Arrow's file systems), and what failures mean."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ds_dagster.aws_session import AwsLogin, aws_session
from ds_dagster.durable import write_whole
from ds_dagster.errors import DsError, error
from ds_dagster.files.layout import is_hidden
from ds_dagster.redaction import redact

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.fs

SCHEMES = ("file", "s3", "s3a")
ALLOWED_URIS = "'file:///absolute/folder' or 's3://bucket/prefix'"
CONNECT_SECONDS, REQUEST_SECONDS, ATTEMPTS = 5.0, 30.0, 3
"""Bounds of one request to a bucket."""
ROLE_SECONDS = 3600
"""Validity of a role's credentials: the default of the security token service."""
RENEW_SECONDS = 600
"""How long before they expire the credentials of a role are renewed."""
DETAIL_CHARACTERS = 400


@dataclass(frozen=True, slots=True, order=True)
class FileFacts:
    """One file. Sorts by age, then by name.

    Attributes:
        modified: nanoseconds since the epoch; buckets store whole seconds.
        path: below the folder that was listed, ``/`` between its parts.
        size: bytes.
    """

    modified: int
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class FilesAddress:
    """Resolved settings of one store. Holds keys: never shown, never stored.

    Attributes:
        url: ``file:///folder`` or ``s3://bucket/prefix``; entities are folders below it.
        region: of the bucket, empty for ``us-east-1``; of ``AWS us-east-1`` only the last word is used.
        endpoint_url: of an S3 service other than Amazon's; empty for Amazon's.
        role_arn, external_id: role to assume with the key, or with the machine's own credentials.
    """

    store: str
    url: str
    region: str = ""
    endpoint_url: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    role_arn: str = ""
    external_id: str = field(default="", repr=False)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> FilesAddress:
        """The address in resolved options; other options are ignored.

        Raises:
            UserError: PROPERTY_INVALID for an address that is neither a folder nor a bucket.
        """
        address = cls(**{name: settings[name] for name in cls.__slots__ if name in settings})
        check_place(address.url, address.endpoint_url)
        return address

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return urlsplit(self.url).scheme == "file"

    @property
    def root(self) -> str:
        """Absolute path, or ``bucket/prefix``, without a slash at its end."""
        parts = urlsplit(self.url)
        return unquote(parts.path).rstrip("/") if self.is_local else f"{parts.netloc}{parts.path}".rstrip("/")

    def place(self, *parts: str) -> str:
        """Path of a folder or file below the root."""
        return "/".join((self.root, *parts))

    @property
    def region_name(self) -> str:
        """The region as Amazon spells it (``us-east-1``)."""
        return self.region.split()[-1].lower() if self.region else "us-east-1"


class FileStore:
    """The files of one address. Not safe for several threads with a role, whose credentials are renewed in between."""

    def __init__(self, address: FilesAddress) -> None:
        self.address = address
        self._system: pyarrow.fs.FileSystem | None = None
        self._until = 0.0

    def listed(self, place: str) -> Iterator[FileFacts]:
        """Files below a place at any depth, without hidden ones; empty if the place does not exist.

        Raises:
            DsError: see :meth:`failure`.
        """
        from pyarrow import fs

        selector = fs.FileSelector(place, recursive=True, allow_not_found=True)
        start = len(place) + 1
        with self.guarded("list its files", place):
            infos = self.system().get_file_info(selector)
        for info in infos:
            if info.type == fs.FileType.File and not is_hidden(info.path[start:]):
                yield FileFacts(info.mtime_ns, info.path[start:], info.size)

    def folders(self, place: str) -> list[str]:
        """Names of the folders directly below a place, without hidden ones, sorted."""
        from pyarrow import fs

        with self.guarded("look at its folders", place):
            infos = self.system().get_file_info(fs.FileSelector(place, allow_not_found=True))
        names = (info.base_name for info in infos if info.type == fs.FileType.Directory)
        return sorted(name for name in names if not is_hidden(name))

    def has_files(self, place: str) -> bool:
        """Whether there are files, other than hidden ones, directly in a folder."""
        from pyarrow import fs

        with self.guarded("look at its files", place):
            infos = self.system().get_file_info(fs.FileSelector(place, allow_not_found=True))
        return any(info.type == fs.FileType.File and not is_hidden(info.base_name) for info in infos)

    def is_folder(self, place: str) -> bool:
        """Whether there is a folder; in a bucket: whether anything is below it."""
        from pyarrow import fs

        with self.guarded("look at a folder", place):
            return bool(self.system().get_file_info(place).type == fs.FileType.Directory)

    def delete_folder(self, place: str) -> None:
        """Remove a folder with everything in it."""
        with self.guarded("delete a folder", place), suppress(FileNotFoundError):
            self.system().delete_dir(place)

    def check_root(self) -> None:
        """Refuse a bucket that does not exist, and an address that is a file.

        Raises:
            UserError: STORE_BUCKET_MISSING, STORE_FOLDER_INVALID, and conditions of :meth:`failure`.
        """
        from pyarrow import fs

        address = self.address
        place = address.root if address.is_local else urlsplit(address.url).netloc
        with self.guarded("look at it", place):
            kind = self.system().get_file_info(place).type
        if kind == fs.FileType.NotFound and not address.is_local:
            raise error("STORE_BUCKET_MISSING", store=address.store, bucket=place)
        if kind == fs.FileType.File:
            raise error("STORE_FOLDER_INVALID", store=address.store, address=place, reason="it is a file")

    def make_folder(self, place: str) -> None:
        """Make a folder; in a bucket an empty object represents it."""
        with self.guarded("make a folder", place):
            self.system().create_dir(place, recursive=True)

    def size(self, place: str) -> int | None:
        """Bytes of a file, None where there is none."""
        with self.guarded("look at a file", place):
            info = self.system().get_file_info(place)
        return int(info.size) if info.is_file else None

    def read(self, place: str) -> bytes | None:
        """A small file as a whole, None where there is none."""
        with self.guarded("read a file", place):
            try:
                with self.system().open_input_stream(place, compression=None) as stream:
                    return bytes(stream.readall())
            except FileNotFoundError:
                return None

    def write(self, place: str, content: bytes | pyarrow.Buffer) -> None:
        """Make a file or replace it; it appears as a whole or not at all."""
        with self.guarded("write a file", place):
            if self.address.is_local:
                write_whole(Path(place), memoryview(content))
                return
            stream = self.system().open_output_stream(place, compression=None)
            try:
                stream.write(content)
            except OSError:
                self._discard(stream, place)
                raise
            stream.close()

    def _discard(self, stream: Any, place: str) -> None:
        """Close a stream that has failed, and remove the incomplete file that closing it may leave."""
        with suppress(OSError):
            stream.close()
        with suppress(OSError):
            self.system().delete_file(place)

    def delete(self, place: str) -> None:
        """Remove a file; does nothing if there is none."""
        with self.guarded("delete a file", place), suppress(FileNotFoundError):
            self.system().delete_file(place)

    def system(self) -> pyarrow.fs.FileSystem:
        """Arrow's file system, with credentials that stay valid for at least :data:`RENEW_SECONDS`."""
        from pyarrow import fs

        address = self.address
        if address.is_local:
            self._system = self._system or fs.LocalFileSystem()
        elif self._system is None or time.monotonic() >= self._until:
            self._system = fs.S3FileSystem(
                region=address.region_name,
                endpoint_override=urlsplit(address.endpoint_url).netloc or None,
                scheme=urlsplit(address.endpoint_url).scheme or "https",
                connect_timeout=CONNECT_SECONDS,
                request_timeout=REQUEST_SECONDS,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
                **self._credentials(),
            )
        return self._system

    def guarded(self, action: str, place: str = "") -> _Guard:
        """A context manager that turns failures into the conditions of :meth:`failure`."""
        return _Guard(self, action, place)

    def failure(self, problem: BaseException, action: str, place: str = "") -> DsError:
        """A failure as a condition; its text without keys.

        Returns:
            UserError: STORE_LOGIN_REFUSED, STORE_PERMISSION_DENIED, STORE_BUCKET_MISSING, STORE_FOLDER_INVALID.
            ExternalError: STORE_UNREACHABLE, DISK_FULL, STORE_CALL_FAILED.
        """
        address = self.address
        whole = redact(" ".join(str(problem).split()))
        code = problem.errno if isinstance(problem, OSError) and address.is_local else None
        name = ERRNOS.get(code or 0) or next((name for part, name in TEXTS if part in whole), "STORE_CALL_FAILED")
        return error(
            name,
            detail=whole[:DETAIL_CHARACTERS],
            store=address.store,
            address=address.url,
            user="this process" if address.is_local else address.access_key_id or "(the machine's own credentials)",
            action=f"{action} ({place})" if place else action,
            reason=whole[:DETAIL_CHARACTERS],
            what=f"the store {address.store}",
            bucket=urlsplit(address.url).netloc,
        )

    def _credentials(self) -> dict[str, str]:
        """Arguments of Arrow's file system: the key, or credentials of the role for an hour."""
        address = self.address
        self._until = float("inf")
        login_keys = {
            "access_key": address.access_key_id,
            "secret_key": address.secret_access_key,
            "session_token": address.session_token,
        }
        if not address.role_arn:
            return {name: value for name, value in login_keys.items() if value}
        login = AwsLogin(
            region_name=address.region_name,
            aws_access_key_id=address.access_key_id,
            aws_secret_access_key=address.secret_access_key,
            aws_session_token=address.session_token,
            role_arn=address.role_arn,
            external_id=address.external_id,
            sts_endpoint_url=address.endpoint_url,
        )
        keys = aws_session(login).get_credentials().get_frozen_credentials()
        self._until = time.monotonic() + ROLE_SECONDS - RENEW_SECONDS
        return {"access_key": keys.access_key, "secret_key": keys.secret_key, "session_token": keys.token}


class _Guard:
    """See :meth:`FileStore.guarded`."""

    def __init__(self, store: FileStore, action: str, place: str) -> None:
        self._store, self._action, self._place = store, action, place

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        if isinstance(problem, OSError):
            raise self._store.failure(problem, self._action, self._place) from None
        if problem is not None and type(problem).__module__.startswith("botocore"):
            raise self._store.failure(problem, f"take the role {self._store.address.role_arn}") from None


def is_lake_url(url: str) -> bool:
    """Whether an address is an absolute folder or a bucket, without user and password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme == "file":
        return not parts.netloc and parts.path.startswith("/") and bool(parts.path.strip("/"))
    return parts.scheme in SCHEMES and bool(parts.netloc) and "@" not in parts.netloc and ":" not in parts.netloc


def check_place(url: str, endpoint_url: str) -> None:
    """Refuse an invalid address of files or tables, or of the S3 service if it is not Amazon's.

    Raises:
        UserError: PROPERTY_INVALID for an address that is neither a folder nor a bucket, or a service without http(s).
    """
    if not is_lake_url(url):
        raise error("PROPERTY_INVALID", name="uris", value=url, allowed=ALLOWED_URIS)
    if endpoint_url and urlsplit(endpoint_url).scheme not in ("http", "https"):
        raise error("PROPERTY_INVALID", name="aws.endpoint_url", value=endpoint_url, allowed="http(s)://host:port")


ERRNOS: Mapping[int, str] = {
    errno.EACCES: "STORE_PERMISSION_DENIED",
    errno.EPERM: "STORE_PERMISSION_DENIED",
    errno.EROFS: "STORE_PERMISSION_DENIED",
    errno.ENOSPC: "DISK_FULL",
    errno.EDQUOT: "DISK_FULL",
    errno.ENOTDIR: "STORE_FOLDER_INVALID",
    errno.EEXIST: "STORE_FOLDER_INVALID",
    errno.EISDIR: "STORE_FOLDER_INVALID",
}
TEXTS: tuple[tuple[str, str], ...] = (
    ("InvalidAccessKeyId", "STORE_LOGIN_REFUSED"),
    ("INVALID_ACCESS_KEY_ID", "STORE_LOGIN_REFUSED"),
    ("INVALID_CLIENT_TOKEN_ID", "STORE_LOGIN_REFUSED"),
    ("InvalidClientTokenId", "STORE_LOGIN_REFUSED"),
    ("SignatureDoesNotMatch", "STORE_LOGIN_REFUSED"),
    ("SIGNATURE_DOES_NOT_MATCH", "STORE_LOGIN_REFUSED"),
    ("ExpiredToken", "STORE_LOGIN_REFUSED"),
    ("Unable to locate credentials", "STORE_LOGIN_REFUSED"),
    ("MISSING_AUTHENTICATION_TOKEN", "STORE_LOGIN_REFUSED"),
    ("ACCESS_DENIED", "STORE_PERMISSION_DENIED"),
    ("AccessDenied", "STORE_PERMISSION_DENIED"),
    ("HTTP status 403", "STORE_PERMISSION_DENIED"),
    ("NO_SUCH_BUCKET", "STORE_BUCKET_MISSING"),
    ("NoSuchBucket", "STORE_BUCKET_MISSING"),
    ("Bucket does not exist", "STORE_BUCKET_MISSING"),
    ("NETWORK_CONNECTION", "STORE_UNREACHABLE"),
    ("curlCode", "STORE_UNREACHABLE"),
    ("Could not connect to the endpoint", "STORE_UNREACHABLE"),
    ("SLOW_DOWN", "STORE_UNREACHABLE"),
    ("SERVICE_UNAVAILABLE", "STORE_UNREACHABLE"),
    ("HTTP status 503", "STORE_UNREACHABLE"),
)
"""Part of a failure's text → condition; the first match counts, without a match STORE_CALL_FAILED."""
