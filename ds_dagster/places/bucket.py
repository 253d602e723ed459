"""A bucket of an S3 service: read, write, list, copy and delete objects, and what failures mean."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ds_dagster.aws_session import ATTEMPTS, CONNECT_SECONDS, aws_client
from ds_dagster.errors import DsError, error
from ds_dagster.redaction import redact

READ_SECONDS = 30
MOST_DELETED = 1000
"""Most objects that one request deletes."""
NEW = "*"
"""In place of an ETag: the object must not exist yet."""
_ABSENT = ("NoSuchKey", "404", "NotFound")
_REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
CODES: Mapping[str, str] = {
    "NoSuchBucket": "CHECKPOINT_BUCKET_MISSING",
    "PermanentRedirect": "CHECKPOINT_BUCKET_MISSING",
    "AuthorizationHeaderMalformed": "CHECKPOINT_BUCKET_MISSING",
    "InvalidAccessKeyId": "CHECKPOINT_BUCKET_REFUSED",
    "SignatureDoesNotMatch": "CHECKPOINT_BUCKET_REFUSED",
    "InvalidToken": "CHECKPOINT_BUCKET_REFUSED",
    "ExpiredToken": "CHECKPOINT_BUCKET_REFUSED",
    "AccessDenied": "CHECKPOINT_BUCKET_REFUSED",
    "403": "CHECKPOINT_BUCKET_REFUSED",
    "SlowDown": "CHECKPOINT_BUCKET_UNREACHABLE",
    "InternalError": "CHECKPOINT_BUCKET_UNREACHABLE",
    "ServiceUnavailable": "CHECKPOINT_BUCKET_UNREACHABLE",
    "RequestTimeout": "CHECKPOINT_BUCKET_UNREACHABLE",
}
"""Code of S3 → condition; other codes: CHECKPOINT_BUCKET_FAILED."""
CLASSES: Mapping[str, str] = {
    "NoCredentialsError": "CHECKPOINT_BUCKET_REFUSED",
    "PartialCredentialsError": "CHECKPOINT_BUCKET_REFUSED",
    "CredentialRetrievalError": "CHECKPOINT_BUCKET_REFUSED",
    "TokenRetrievalError": "CHECKPOINT_BUCKET_REFUSED",
}
"""Exception of botocore without an answer of S3 → condition; others: CHECKPOINT_BUCKET_UNREACHABLE."""


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A bucket with its login. Holds keys: never stored.

    Attributes:
        name: of the bucket.
        region: empty only with ``endpoint_url``.
        endpoint_url: of an S3 service other than Amazon's; empty for Amazon's.
        access_key_id: empty: the machine's own credentials.
    """

    name: str
    region: str = ""
    endpoint_url: str = ""
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    @property
    def region_name(self) -> str:
        """The region; services other than Amazon's accept any."""
        return self.region or "us-east-1"


class Bucket:
    """The objects of one bucket. Safe for several threads."""

    def __init__(self, address: BucketAddress) -> None:
        self.address = address

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Content and ETag of an object; None if there is none."""
        with self._named("read an object"):
            try:
                answer = self._client.get_object(Bucket=self.address.name, Key=key)
                return bytes(answer["Body"].read()), str(answer["ETag"])
            except self._client.exceptions.NoSuchKey:
                return None

    def write(self, key: str, content: bytes | memoryview, instead_of: str = "") -> bool:
        """Make an object or replace it, as a whole.

        Args:
            key, content: of the object.
            instead_of: ETag of the only object that may be replaced, :data:`NEW`, or empty for no condition. S3 checks
                it in one step with the write.

        Returns:
            Whether it was written; False if the condition did not hold.
        """
        condition = {"IfNoneMatch": NEW} if instead_of == NEW else {"IfMatch": instead_of} if instead_of else {}
        with self._named("write an object"):
            try:
                self._client.put_object(Bucket=self.address.name, Key=key, Body=bytes(content), **condition)
            except self._client.exceptions.ClientError as problem:
                if condition and (_code(problem) in _REFUSED or _code(problem) in _ABSENT):
                    return False
                raise
        return True

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Keys and sizes of all objects whose key begins with a prefix, sorted by key."""
        with self._named("list objects"):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.address.name, Prefix=prefix)
            for page in pages:
                yield from ((item["Key"], int(item["Size"])) for item in page.get("Contents", ()))

    def names(self, folder: str) -> Iterator[str]:
        """Names of objects and folders directly below a folder. ``folder`` ends with a slash or is empty."""
        with self._named("list objects"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.address.name, Prefix=folder, Delimiter="/"
            )
            for page in pages:
                for part in page.get("CommonPrefixes", ()):
                    yield part["Prefix"][len(folder) : -1]
                for item in page.get("Contents", ()):
                    if item["Key"] != folder:  # the marker of a folder
                        yield item["Key"][len(folder) :]

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the bucket.

        Raises:
            FileNotFoundError: there is no such object.
        """
        with self._named("copy an object"):
            try:
                origin = {"Bucket": self.address.name, "Key": source}
                self._client.copy(origin, self.address.name, target)
            except self._client.exceptions.ClientError as problem:
                if _code(problem) in _ABSENT:
                    raise FileNotFoundError(source) from problem
                raise

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are gone are no fault."""
        for some in _groups(keys, MOST_DELETED):
            with self._named("delete objects"):
                objects = [{"Key": key} for key in some]
                done = self._client.delete_objects(Bucket=self.address.name, Delete={"Objects": objects, "Quiet": True})
            for refused in done.get("Errors", ()):
                raise self._failure(str(refused.get("Code", "")), str(refused.get("Message", "")), "delete objects")

    def check(self, folder: str) -> None:
        """Write, read and delete an object, and make sure that the service refuses to replace an object that must be
        new.

        Args:
            folder: prefix of the object's key; empty: the bucket's root.

        Raises:
            DsError: CHECKPOINT_BUCKET_OVERWRITES, or another condition of this module.
        """
        name = f"check-{uuid.uuid4().hex}"
        key = f"{folder}/{name}" if folder else name
        self.write(key, b"", NEW)
        try:
            if self.write(key, b"again", NEW) or self.read(key) is None:
                raise error("CHECKPOINT_BUCKET_OVERWRITES", bucket=self.address.name, place=self._place)
        finally:
            self.delete([key])

    @property
    def _place(self) -> str:
        return self.address.endpoint_url or f"region {self.address.region_name}"

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config

        address = self.address
        retries = {"total_max_attempts": ATTEMPTS, "mode": "standard"}
        style = {"addressing_style": "path" if address.endpoint_url else "auto"}
        limits = Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries=retries, s3=style)
        login = {
            "region_name": address.region_name,
            "aws_access_key_id": address.access_key_id,
            "aws_secret_access_key": address.secret_access_key,
            "aws_session_token": address.session_token,
        }
        return aws_client("s3", {**login, "endpoint_url": address.endpoint_url or None, "config": limits})

    @contextmanager
    def _named(self, action: str) -> Iterator[None]:
        """Turn failures of botocore into our conditions."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as problem:
            code = _code(problem) or type(problem).__name__
            raise self._failure(code, str(problem), action) from None

    def _failure(self, code: str, text: str, action: str) -> DsError:
        is_answer = code in CODES or not code.endswith(("Error", "Timeout", "Exception"))
        name = CODES.get(code, "CHECKPOINT_BUCKET_FAILED") if is_answer else CLASSES.get(code, "")
        return error(
            name or "CHECKPOINT_BUCKET_UNREACHABLE",
            bucket=self.address.name,
            place=self._place,
            action=action,
            detail=redact(" ".join(text.split()))[:400],
        )


def _code(problem: BaseException) -> str:
    """Code in an answer of S3; empty without an answer."""
    answer = getattr(problem, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def _groups(keys: Iterable[str], most: int) -> Iterator[list[str]]:
    group: list[str] = []
    for key in keys:
        group.append(key)
        if len(group) == most:
            yield group
            group = []
    if group:
        yield group
