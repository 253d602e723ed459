"""Folders and S3 prefixes that hold Delta tables (delta-rs for the tables, boto3 to list and delete), and their
exceptions as conditions."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ds_dagster.errors import DsError, error
from ds_dagster.files.address import check_place
from ds_dagster.redaction import redact

DETAIL_CHARACTERS = 400
LOAD_LIMITS: Mapping[str, str] = {
    "timeout": "60s",
    "connect_timeout": "10s",
    "max_retries": "3",
    "retry_timeout": "60s",
}
"""Limits of one request of a load; ``retry_timeout`` includes the pauses between attempts."""
CONTROL_LIMITS: Mapping[str, str] = {
    "timeout": "10s",
    "connect_timeout": "5s",
    "max_retries": "1",
    "retry_timeout": "10s",
}


@dataclass(frozen=True, slots=True)
class LakeAddress:
    """Resolved settings of one store. Holds keys: never shown, never stored.

    Attributes:
        url: ``file:///folder`` or ``s3://bucket/prefix``; tables are below it.
        region: of the bucket, empty for ``us-east-1``; ``AWS us-east-1`` is read as its last word.
        endpoint_url: of a service other than Amazon's, empty for Amazon's.
    """

    store: str
    url: str
    kind: str = "DELTA"
    region: str = ""
    endpoint_url: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    @classmethod
    def of(cls, store: str, settings: Mapping[str, str], kind: str = "DELTA") -> LakeAddress:
        """The address in resolved options; ignores other options.

        Raises:
            UserError: PROPERTY_INVALID for an address that is neither a folder nor a bucket.
        """
        address = cls(store, kind=kind, **{name: settings[name] for name in _SETTINGS if name in settings})
        check_place(address.url, address.endpoint_url)
        return address

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return urlsplit(self.url).scheme == "file"

    @property
    def root(self) -> str:
        """Address for delta-rs: an absolute path or ``s3://bucket/prefix``, without a slash at its end."""
        parts = urlsplit(self.url)
        if parts.scheme == "file":
            return unquote(parts.path).rstrip("/")
        return f"s3://{parts.netloc}{parts.path}".rstrip("/")

    def place(self, *parts: str) -> str:
        """Address of a table or folder below the root."""
        return "/".join((self.root, *parts))

    def storage_options(self, limits: Mapping[str, str] = LOAD_LIMITS) -> dict[str, str]:
        """Settings of delta-rs' object store, including keys. Empty for a folder. Without a key, delta-rs looks for the
        machine's own credentials (environment, container, instance)."""
        if self.is_local:
            return {}
        options = {
            "AWS_REGION": self.region.split()[-1].lower() if self.region else "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ALLOW_HTTP": "true" if self.endpoint_url.startswith("http://") else "",
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_SESSION_TOKEN": self.session_token,
        }
        return {name: value for name, value in options.items() if value} | dict(limits)

    def deltalake(self) -> Any:
        """The module ``deltalake``.

        Raises:
            UserError: STORE_DRIVER_MISSING.
        """
        try:
            import deltalake
        except ImportError as problem:
            raise error("STORE_DRIVER_MISSING", type=self.kind, package="deltalake") from problem
        return deltalake

    def table(self, place: str, limits: Mapping[str, str] = LOAD_LIMITS) -> Any | None:
        """The newest state of the table at a place, a ``deltalake.DeltaTable``; None when there is none."""
        module = self.deltalake()
        from deltalake.exceptions import TableNotFoundError

        try:
            return module.DeltaTable(place, storage_options=self.storage_options(limits))
        except TableNotFoundError:
            return None

    def folders(self, place: str, limits: Mapping[str, str] = LOAD_LIMITS) -> Sequence[str]:
        """Names of the folders directly below a place, sorted."""
        if self.is_local:
            return sorted(path.name for path in Path(place).iterdir() if path.is_dir()) if Path(place).exists() else ()
        client, bucket, prefix = self._s3(place, limits)
        with closing(client):
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
            prefixes = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", ())]
        return sorted(name.rstrip("/").rpartition("/")[2] for name in prefixes)

    def remove_folder(self, place: str, name: str) -> None:
        """Delete a folder below a place, with everything in it."""
        if self.is_local:
            with suppress(FileNotFoundError):
                shutil.rmtree(Path(place) / name)
            return
        client, bucket, prefix = self._s3(f"{place}/{name}", LOAD_LIMITS)
        with closing(client):
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                keys = [{"Key": item["Key"]} for item in page.get("Contents", ())]
                if keys:
                    client.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})

    def make_folder(self, place: str) -> None:
        """Create the folder of a table; does nothing in a bucket."""
        if self.is_local:
            Path(place).mkdir(parents=True, exist_ok=True)

    def errors(self) -> tuple[type[Exception], ...]:
        """Exceptions of delta-rs, Arrow, boto3 and the file system, for :meth:`failure`."""
        self.deltalake()
        import botocore.exceptions as botocore_exceptions
        import pyarrow
        from deltalake.exceptions import DeltaError

        boto_errors = (botocore_exceptions.BotoCoreError, botocore_exceptions.ClientError)
        return (DeltaError, OSError, pyarrow.ArrowException, *boto_errors)

    def _s3(self, place: str, limits: Mapping[str, str]) -> tuple[Any, str, str]:
        """A client, the bucket, the prefix with its slash. We list with boto3, since delta-rs' file system holds
        Python's global lock while it waits for the network."""
        import boto3
        from botocore.config import Config

        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        options = self.storage_options(limits)
        client = boto3.client(
            "s3",
            endpoint_url=options.get("AWS_ENDPOINT_URL"),
            region_name=options["AWS_REGION"],
            aws_access_key_id=options.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=options.get("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=options.get("AWS_SESSION_TOKEN"),
            config=Config(
                connect_timeout=int(limits["connect_timeout"].rstrip("s")),
                read_timeout=int(limits["timeout"].rstrip("s")),
                retries={"total_max_attempts": int(limits["max_retries"]) + 1},
            ),
        )
        return client, bucket, f"{prefix}/" if prefix else ""

    def failure(self, problem: Exception, action: str, table: str = "", epoch: int | None = None) -> DsError:
        """An exception of delta-rs, Arrow or the file system as a condition; its text without rows and keys."""
        whole = _primary(problem)
        code = problem.errno if isinstance(problem, OSError) else None
        name = ERRNOS.get(code or 0) or next((name for part, name in TEXTS if part in whole), "STORE_CALL_FAILED")
        text = whole[:DETAIL_CHARACTERS]
        return error(
            name,
            detail=text,
            store=self.store,
            address=self.url,
            user=self.access_key_id or "(the machine's own credentials)" if not self.is_local else "this process",
            action=action,
            table=table,
            epoch="(none)" if epoch is None else str(epoch),
            reason=text,
            difference=text,
            what=f"the store {self.store}",
            bucket=urlsplit(self.url).netloc,
        )


_SETTINGS = ("url", "region", "endpoint_url", "access_key_id", "secret_access_key", "session_token")
ERRNOS: Mapping[int, str] = {
    errno.EACCES: "STORE_PERMISSION_DENIED",
    errno.EPERM: "STORE_PERMISSION_DENIED",
    errno.EROFS: "STORE_PERMISSION_DENIED",
    errno.ENOSPC: "DISK_FULL",
    errno.EDQUOT: "DISK_FULL",
    errno.ENOTDIR: "STORE_FOLDER_INVALID",
    errno.EEXIST: "STORE_FOLDER_INVALID",
    errno.ENOENT: "STORE_FOLDER_INVALID",
}
TEXTS: tuple[tuple[str, str], ...] = (
    ("InvalidAccessKeyId", "STORE_LOGIN_REFUSED"),
    ("SignatureDoesNotMatch", "STORE_LOGIN_REFUSED"),
    ("ExpiredToken", "STORE_LOGIN_REFUSED"),
    ("InvalidToken", "STORE_LOGIN_REFUSED"),
    ("InvalidClientTokenId", "STORE_LOGIN_REFUSED"),
    ("AuthorizationHeaderMalformed", "STORE_LOGIN_REFUSED"),
    ("169.254.169.254", "STORE_LOGIN_REFUSED"),
    ("Unable to locate credentials", "STORE_LOGIN_REFUSED"),
    ("AccessDenied", "STORE_PERMISSION_DENIED"),
    ("lacked the necessary privileges", "STORE_PERMISSION_DENIED"),
    ("Permission denied", "STORE_PERMISSION_DENIED"),
    ("NoSuchBucket", "STORE_BUCKET_MISSING"),
    ("No space left", "DISK_FULL"),
    ("os error 28", "DISK_FULL"),
    ("Invalid data found", "TARGET_REJECTS_ROWS"),
    ("append-only", "TARGET_REJECTS_ROWS"),
    ("table features required", "TARGET_DIFFERS"),
    ("client error (Connect)", "STORE_UNREACHABLE"),
    ("error sending request", "STORE_UNREACHABLE"),
    ("operation timed out", "STORE_UNREACHABLE"),
    ("503 Service Unavailable", "STORE_UNREACHABLE"),
    ("Could not connect to the endpoint", "STORE_UNREACHABLE"),
    ("timeout on endpoint", "STORE_UNREACHABLE"),
)
"""Part of a message → condition, the first match counts; others are STORE_CALL_FAILED. delta-rs shows the XML answers
of object stores. 169.254.169.254, the address of the service for instance credentials, means that there are none."""
_ROWS = "Preview of invalid data"
_COLORS = re.compile(r"\x1b\[[0-9;]*m|↳")


def _primary(problem: Exception) -> str:
    """An exception's message on one line, without secrets and quoted rows."""
    text = _COLORS.sub("", str(problem).partition(_ROWS)[0])
    return redact(" ".join(text.split()))
