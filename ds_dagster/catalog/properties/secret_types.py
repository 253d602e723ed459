"""Properties of CREATE SECRET, by the type of secret they belong to.

``generic_string`` with ``secret_string`` is the dialect's own; the other types are ours: they say where a value is
instead of holding it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ds_dagster.catalog.properties.spec import Place, PropertySpec

SecretType = Literal["environment", "file", "aws_secrets_manager", "generic_string"]
_SECRET: tuple[Place, ...] = ("secret",)

SECRET: tuple[PropertySpec, ...] = (
    PropertySpec("variable", "text", _SECRET, "environment: name of the variable, in the environment or in .env"),
    PropertySpec(
        "secret_file", "file", _SECRET, "file: the file that holds the value and nothing else, relative to the project"
    ),
    PropertySpec("secret_id", "text", _SECRET, "aws_secrets_manager: name or ARN of the secret"),
    PropertySpec("json_key", "text", _SECRET, "aws_secrets_manager: field of a secret that is a JSON object"),
    PropertySpec("version_stage", "text", _SECRET, "aws_secrets_manager: which version; default AWSCURRENT"),
    PropertySpec("secret_string", "text", _SECRET, "generic_string: the value itself", secret=True),
)


@dataclass(frozen=True, slots=True)
class SecretProperties:
    """Names of the properties of one type: ``required`` (with an ``example`` of its value) and ``optional``;
    ``description`` is always allowed."""

    required: str
    example: str
    optional: tuple[str, ...] = ()


SECRET_TYPES: Mapping[SecretType, SecretProperties] = MappingProxyType(
    {
        "environment": SecretProperties("variable", "'NAME'"),
        "file": SecretProperties("secret_file", "'secrets/name'"),
        "aws_secrets_manager": SecretProperties(
            "secret_id", "'prod/name'", ("json_key", "version_stage", "access_region", "aws.endpoint_url")
        ),
        "generic_string": SecretProperties("secret_string", "'${NAME}'"),
    }
)
