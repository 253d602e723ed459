"""The overlay that ``ds up`` writes: addresses of the local servers as store properties, by kind of store.

It stays after ``ds down``, so that a project with local servers never uses the addresses in its statements by accident.
To use those, remove the file or set ``DS_PROFILE=none``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ds_dagster.local import postgres, snowflake
from ds_dagster.local.addresses import LocalAddresses

HEADER = """\
# Written by `ds up`, which writes it anew each time: store properties of the servers on this machine, by kind of store.
# While this file is here it is in force and every command says so; DS_PROFILE=none leaves it out.
"""
ANY_KEY = "local"  # the local Kinesis accepts any credentials, but a request must have some

Value = str | bool | Mapping[str, str]


def overlay_file(state: Path) -> Path:
    """Path of the overlay."""
    return state / "local.toml"


def overlay_kinds(state: Path, addresses: LocalAddresses) -> dict[str, dict[str, Value]]:
    """Kind of store → property → value; a secret is a reference to a file, relative to the state folder."""
    kinds: dict[str, dict[str, Value]] = {}
    if addresses.kafka:
        kinds["kafka"] = {"uris": addresses.kafka, "tls.disabled": True, "kafka.sasl.hash_function": "NONE"}
    if addresses.kinesis:
        kinds["kinesis"] = {
            "uris": addresses.kinesis,
            "kinesis.access_key_id": ANY_KEY,
            "kinesis.secret_access_key": ANY_KEY,
            "tls.disabled": True,
        }
    if addresses.postgres:
        kinds["postgresql"] = {
            "uris": addresses.postgres,
            "postgres.username": postgres.USER,
            "postgres.password": {"file": postgres.password_file(state).relative_to(state).as_posix()},
            "tls.disabled": True,
        }
    if addresses.snowflake:
        kinds["snowflake"] = {
            "uris": addresses.snowflake,
            "snowflake.account_id": snowflake.ACCOUNT,
            "snowflake.username": snowflake.USER,
            "snowflake.password": snowflake.ANY_PASSWORD,
            "snowflake.warehouse_name": snowflake.WAREHOUSE,
            "tls.disabled": True,
        }
    return kinds


def write_overlay(state: Path, addresses: LocalAddresses) -> Path:
    """Write the overlay in one step and return its path; an unchanged file is not written."""
    path = overlay_file(state)
    text = HEADER + "".join(_section(kind, values) for kind, values in overlay_kinds(state, addresses).items())
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        staged = path.with_name(".local.toml.new")
        staged.write_text(text, encoding="utf-8")
        staged.replace(path)
    return path


def _section(kind: str, values: Mapping[str, Value]) -> str:
    return f"\n[kinds.{kind}]\n" + "".join(f"{_key(key)} = {_value(value)}\n" for key, value in values.items())


def _key(key: str) -> str:
    return json.dumps(key) if "." in key else key


def _value(value: Value) -> str:
    """A value in TOML, written as JSON: a JSON text is a TOML basic string, true and false are spelt alike."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {json.dumps(text)}" for key, text in value.items()) + " }"
    return json.dumps(value)
