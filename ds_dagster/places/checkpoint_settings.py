"""The settings ``[checkpoints]``: a bucket for checkpoints in the place of the state folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ds_dagster.errors import error
from ds_dagster.names import did_you_mean

_BUCKET = re.compile(r"s3a?://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<prefix>(/[A-Za-z0-9!_.*'()=-]+)*)/?")
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_KEYS = ("access_key_id", "secret_access_key", "session_token")
_SECTION = "checkpoints"


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """A bucket for checkpoints. Keys are ``${NAME}`` references, never values.

    Attributes:
        url: ``s3://bucket/prefix``; empty: checkpoints are in the state folder.
        region: of the bucket, ``eu-central-1``; not needed with ``endpoint_url``.
        endpoint_url: of an S3 service that is not Amazon's.
        access_key_id: reference to the id of a key, ``${NAME}``; empty: each host uses its own credentials (role,
            profile, environment).
        secret_access_key: reference to the secret part of the key.
        session_token: reference to the token of a temporary key.
    """

    url: str = ""
    region: str = ""
    endpoint_url: str = ""
    access_key_id: str = ""
    secret_access_key: str = ""
    session_token: str = ""

    @property
    def in_bucket(self) -> bool:
        """Whether checkpoints are in a bucket."""
        return bool(self.url)

    @property
    def bucket(self) -> str:
        """Name of the bucket."""
        return self._parts["bucket"]

    @property
    def prefix(self) -> str:
        """Prefix of all keys, without slashes at its ends; may be empty."""
        return self._parts["prefix"].strip("/")

    @property
    def _parts(self) -> re.Match[str]:
        match = _BUCKET.fullmatch(self.url)
        assert match is not None
        return match


IN_STATE_FOLDER = CheckpointSettings()


def read_checkpoints(table: Any, file: str) -> CheckpointSettings:
    """The section of a settings file.

    Args:
        table: value of ``checkpoints``; ``{}`` if there is none.
        file: name of the settings file, for messages.

    Raises:
        UserError: SETTING_INVALID, SETTING_UNKNOWN, CHECKPOINT_KEY_WRITTEN.
    """
    if not isinstance(table, dict):
        raise error(
            "SETTING_INVALID", name=_SECTION, file=file, reason="not a table", allowed="[checkpoints] with keys"
        )
    names = [part.name for part in fields(CheckpointSettings)]
    for name, value in table.items():
        if name not in names:
            raise error("SETTING_UNKNOWN", name=f"{_SECTION}.{name}", file=file, nearest=did_you_mean(name, names))
        if not isinstance(value, str):
            raise _invalid(name, file, "not a text", "a text in quotes")
        if name in _KEYS and value and not _REFERENCE.fullmatch(value):
            raise error("CHECKPOINT_KEY_WRITTEN", name=name, file=file, reference=f"${{CHECKPOINT_{name.upper()}}}")
    return _checked(table, file)


def _checked(table: Mapping[str, str], file: str) -> CheckpointSettings:
    settings = CheckpointSettings(**table)
    if table and not _BUCKET.fullmatch(settings.url):
        raise _invalid("url", file, settings.url or "missing", "s3://bucket/prefix")
    if settings.endpoint_url and not re.fullmatch(r"https?://[^/@\s]+", settings.endpoint_url):
        raise _invalid("endpoint_url", file, settings.endpoint_url, "http(s)://host:port")
    if table and not (settings.region or settings.endpoint_url):
        raise _invalid("region", file, "missing", "the region of the bucket, as in eu-central-1")
    if bool(settings.access_key_id) != bool(settings.secret_access_key):
        raise _invalid("access_key_id", file, "one half of a key", "access_key_id and secret_access_key, or neither")
    if settings.session_token and not settings.access_key_id:
        raise _invalid("session_token", file, "without a key", "with access_key_id and secret_access_key")
    return settings


def _invalid(name: str, file: str, reason: str, allowed: str) -> Exception:
    return error("SETTING_INVALID", name=f"{_SECTION}.{name}", file=file, reason=reason, allowed=allowed)
