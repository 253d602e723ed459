"""Default properties for well-known services: TLS, and the login that belongs to a port. Written properties win; a
login by password is added only if the store has a user.

Ports of Amazon MSK: "Port information" in its developer guide. Confluent Cloud takes API keys as PLAIN over TLS,
Redpanda Cloud SCRAM-SHA-256 over TLS (connection pages of both).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.store import StoreDefinition
from ds_dagster.stores.kafka.security import HASH_FUNCTION
from ds_dagster.stores.options import is_literal, word

PROFILE, USER_NAME = "kafka.profile", "kafka.sasl.username"
BY_PASSWORD = ("plain", "sha256", "sha512")
Defaults = tuple[tuple[str, str | bool], ...]
_TLS: Defaults = (("tls.disabled", False),)
_SCRAM_512: Defaults = ((HASH_FUNCTION, "sha512"), *_TLS)
_IAM: Defaults = ((HASH_FUNCTION, "aws_msk_iam"), *_TLS)


@dataclass(frozen=True, slots=True)
class Profile:
    """A service.

    Attributes:
        defaults: (property of the store, its default value).
        ports: port of the first broker → defaults for it; other ports have ``defaults``.
    """

    defaults: Defaults = ()
    ports: Mapping[int, Defaults] = field(default_factory=lambda: MappingProxyType({}))


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "none": Profile(),
        "msk": Profile(
            _TLS,
            MappingProxyType(
                {
                    9092: (),
                    9094: _TLS,
                    9194: _TLS,
                    9096: _SCRAM_512,
                    9196: _SCRAM_512,
                    9098: _IAM,
                    9198: _IAM,
                }
            ),
        ),
        "confluent_cloud": Profile(((HASH_FUNCTION, "plain"), *_TLS)),
        "redpanda": Profile(((HASH_FUNCTION, "sha256"), *_TLS)),
    }
)
"""Word of ``kafka.profile`` → service."""


def profiled(store: StoreDefinition) -> StoreDefinition:
    """The store with the properties of its profile added. A store under the overlay of local servers is unchanged."""
    profile = PROFILES.get(word(store, PROFILE))
    if profile is None or store.overlaid:
        return store
    defaults = profile.ports.get(_first_port(store), profile.defaults)
    unmeant = () if USER_NAME in store.properties else tuple((HASH_FUNCTION, word_) for word_ in BY_PASSWORD)
    added = {
        name: PropertyValue(value)
        for name, value in defaults
        if name not in store.properties and (name, value) not in unmeant
    }
    return replace(store, properties=MappingProxyType({**added, **store.properties}))


def _first_port(store: StoreDefinition) -> int:
    """Port of the first broker, 0 if it is not known."""
    if not is_literal(store.properties.get("uris")):
        return 0
    port = word(store, "uris").partition(",")[0].strip().rpartition(":")[2]
    return int(port) if port.isdecimal() else 0
