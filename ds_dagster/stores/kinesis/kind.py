"""Amazon Kinesis Data Streams: our own Spark data source and sink, control through boto3 (``admin.py``)."""

# ruff: noqa: ARG002 - every kind takes the arguments of the one protocol

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ds_dagster.catalog.capabilities import Capabilities
from ds_dagster.catalog.declaring.inference import delivery
from ds_dagster.catalog.entity import EntityFacts, EntityPlan
from ds_dagster.catalog.io_spec import Envelope, ReadSpec, RefreshMode, Resolver, WriteSpec
from ds_dagster.catalog.name_rules import NameRule
from ds_dagster.catalog.properties.spec import PropertySpec
from ds_dagster.catalog.properties.table import RECORDS, specs
from ds_dagster.catalog.properties.values import PropertyValue
from ds_dagster.catalog.reading.starting import offsets_text
from ds_dagster.catalog.relation import Relation
from ds_dagster.catalog.store import ReadOptions, StoreAdmin, StoreDefinition
from ds_dagster.datatypes import DataType, Scalar
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import error
from ds_dagster.kinesis_aggregates import SHOWN_POSITION
from ds_dagster.stores.options import invalid_address, is_literal, make_options, missing, word
from ds_dagster.stores.row_metadata import STREAM_METADATA

COUNTS = ("topic.shards",)
SETTINGS_PREFIX = "kinesis.stream."
MODE, RETENTION = "kinesis.stream.mode", "kinesis.stream.retention.hours"
ON_DEMAND = "on_demand"
DEFAULT_REGION = "us-east-1"
PROVIDER = "ds_dagster.spark.kinesis.source:KinesisDataSource"
FORMAT = "ds_kinesis"
MAX_KEY_CHARACTERS = 256
MOST_HOURS = 8760
LAST_SEQUENCE_NUMBER = 10**129 - 1
"""https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetShardIterator.html: up to 129 digits."""
ENVELOPE = Envelope(
    key="CAST(partition_key AS BINARY)",
    value="data",
    timestamp="approximate_arrival_timestamp",
    partition="shard_id",
    order="CONCAT(LPAD(sequence_number, 64, '0'), LPAD(CAST(sub_sequence_number AS STRING), 7, '0'))",
    position=SHOWN_POSITION,
)
CLIENT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "region": "region_name",
        "endpoint_url": "endpoint_url",
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
        "profile": "profile_name",
        "role_arn": "role_arn",
        "external_id": "external_id",
        "sts_endpoint_url": "sts_endpoint_url",
    }
)
"""Connection option → setting of :func:`ds_dagster.aws_session.aws_client`."""
KEY, SECRET, TOKEN = "aws.access_key_id", "aws.secret_access_key", "aws.session_token"
PROFILE, ROLE, EXTERNAL_ID, STS = "aws.profile", "kinesis.iam_role_arn", "kinesis.external_id", "aws.sts_endpoint_url"


class Kinesis:
    """Kinesis streams of one region."""

    name = "KINESIS"
    aliases: tuple[str, ...] = ()
    capabilities = Capabilities(
        reads_streams=True,
        writes_streams=True,
        record_keys=True,
        entity_rule=NameRule(
            "names of streams are up to 128 letters, digits, dots, underscores and hyphens", r"[A-Za-z0-9_.-]{1,128}"
        ),
        count_properties=COUNTS,
        required_counts=COUNTS,
        entity_settings_prefix=SETTINGS_PREFIX,
        counts_unless=(MODE, ON_DEMAND),
        stream_delivery="at_least_once",
        changelog_delivery="idempotent_by_key",
        record_time="broker",
        row_metadata=STREAM_METADATA,
        max_key_characters=MAX_KEY_CHARACTERS,
        dagster_kinds=("kinesis", "aws"),
        storage_kind="kinesis",
        no_past="sequence numbers have gaps, so nobody can say which records are gone; copy the stream into files or a "
        "topic of Kafka, and fill the table from the copy",
        starting_positions=("earliest", "latest", "timestamp", "offsets"),
        last_offset=LAST_SEQUENCE_NUMBER,
        skips_lost_records=True,
        not_built=(("enhanced fan-out", "streams are polled"),),
    )
    store_properties: tuple[PropertySpec, ...] = specs(
        "uris", "access_region", "config_file", "description", KEY, SECRET, TOKEN, PROFILE, ROLE,
        EXTERNAL_ID, STS, "kinesis.account.id", "tls.disabled",
    )  # fmt: skip
    relation_properties: tuple[PropertySpec, ...] = specs(
        *RECORDS, *COUNTS, "starting.offsets", MODE, RETENTION, "kinesis.read.mode"
    )

    def check_store(self, store: StoreDefinition) -> Sequence[Diagnostic]:
        """Check that a region or an endpoint is given, a key comes with its secret and without a profile, an external
        id with a role, and the endpoint has a scheme."""
        problems: list[Diagnostic] = []
        if "uris" not in store.properties and "access_region" not in store.properties:
            problems.append(missing(store, "access_region", "the region of the streams", "'us-east-2'"))
        for name, other in ((KEY, SECRET), (SECRET, KEY)):
            if name in store.properties and other not in store.properties:
                problems.append(missing(store, other, f"{name} is not valid without it", "'${NAME}'"))
        if KEY in store.properties and PROFILE in store.properties and not store.overlaid:
            allowed = f"{PROFILE} or {KEY}, not both"
            problem = error(
                "PROPERTY_INVALID", span=store.span, name=PROFILE, value=word(store, PROFILE), allowed=allowed
            )
            problems.append(problem.diagnostic())
        if EXTERNAL_ID in store.properties and ROLE not in store.properties:
            problems.append(missing(store, ROLE, f"{EXTERNAL_ID} is not valid without it", "'arn:aws:iam::…:role/…'"))
        address = store.properties.get("uris")
        if is_literal(address) and "://" not in str(address and address.value):
            problems.append(
                invalid_address(store, "https://kinesis.<region>.amazonaws.com, or another http(s) endpoint")
            )
        return problems

    def check_relation(self, relation: Relation) -> Iterator[Diagnostic]:
        """KEY_OF_BYTES for a key of bytes: a partition key is Unicode."""
        key = relation.key
        types = [key.type, *(column.type for column in relation.columns if column.name in key.columns)]
        if key.format == "primitive" and any(isinstance(t, Scalar) and t.name == "VARBINARY" for t in types):
            yield error("KEY_OF_BYTES", span=relation.span, relation=relation.name, store=relation.store).diagnostic()

    def native_type(self, type_: DataType) -> str | None:
        """Streams have no column types."""
        return None

    def read_spec(
        self, store: StoreDefinition, relation: Relation, options: ReadOptions, facts: EntityFacts | None
    ) -> ReadSpec:
        """Our data source; records are stamped on arrival, an empty record is a delete."""
        return ReadSpec(
            format=FORMAT,
            provider=PROVIDER,
            envelope=ENVELOPE,
            entity=f"{store.name}.{relation.entity}",
            options=make_options(
                {
                    **connection(store),
                    "stream": relation.entity,
                    "starting.position": options.starting_position,
                    "starting.timestamp": options.starting_timestamp,
                    "starting.offsets": offsets_text(options.starting_offsets) or None,
                    "on.trimmed": options.data_loss,
                    "max.records.per.batch": options.max_records_per_batch,
                }
            ),
            time_authority="broker",
            empty_is_delete=True,
            text_keys=True,
            cluster_options=make_options({"ship.records": True}),
            limit_option="max.records.per.batch",
            identity=facts.identity if facts is not None else "",
        )

    def write_spec(self, store: StoreDefinition, relation: Relation, refresh: RefreshMode) -> WriteSpec:
        """Our sink: at least once. Changelogs are still correct: a repeated record sets its key to the same value."""
        return WriteSpec(
            kind="stream",
            entity=f"{store.name}.{relation.entity}",
            delivery=delivery(relation.kind, relation.properties, self),
            format=FORMAT,
            provider=PROVIDER,
            options=make_options({**connection(store), "stream": relation.entity}),
            record=(("partition_key", "key_text"), ("data", "value_bytes_or_empty")),
            max_key_characters=MAX_KEY_CHARACTERS,
        )

    def entity_plan(self, relation: Relation) -> EntityPlan:
        """Plan of a stream: shards (none in mode on_demand, where the service chooses them), mode, retention.

        Raises:
            UserError: PROPERTY_INVALID for shards of a stream on demand, and for a retention over a year.
        """
        properties = relation.properties
        counts = {name: int(properties[name].value) for name in COUNTS if name in properties}
        settings = {name: str(properties[name].value) for name in (MODE, RETENTION) if name in properties}
        stated = frozenset(name for name in (*counts, *settings) if properties[name].span is not None)
        if settings.get(MODE) == ON_DEMAND:
            _check_absent(relation, COUNTS, stated, "no number: the service chooses it for a stream on demand")
            counts = {}
        if int(settings.get(RETENTION, 0)) > MOST_HOURS:
            _check_absent(relation, (RETENTION,), stated, f"24 to {MOST_HOURS}")
        return EntityPlan(
            name=relation.entity,
            counts=MappingProxyType(counts),
            settings=MappingProxyType(settings),
            used_by=str(relation.name),
            stated=stated,
            like=relation.like,
        )

    def uri(self, store: StoreDefinition, relation: Relation) -> str:
        """``kinesis://region/stream``."""
        return f"kinesis://{region_of(store)}/{relation.entity}"

    def admin(self, store: StoreDefinition, resolve: Resolver) -> StoreAdmin:
        """Connect with boto3."""
        from ds_dagster.stores.kinesis.admin import KinesisAdmin

        return KinesisAdmin(store.name, self.client_settings(store, resolve))

    def client_settings(self, store: StoreDefinition, resolve: Resolver) -> Mapping[str, str]:
        """Settings of :func:`ds_dagster.aws_session.aws_client`."""
        return {CLIENT_NAMES[name]: resolve(value) for name, value in make_options(connection(store)).items()}


def _check_absent(relation: Relation, names: Sequence[str], stated: frozenset[str], allowed: str) -> None:
    for name in stated.intersection(names):
        written = relation.properties[name]
        raise error("PROPERTY_INVALID", span=written.span, name=name, value=written.value, allowed=allowed)


def region_of(store: StoreDefinition) -> str:
    """The written region (``AWS us-east-1`` is accepted), else the region in an AWS endpoint, else ``us-east-1``."""
    written = word(store, "access_region")
    if written:
        region = written.split()[-1]
        return region if "${" in region else region.lower()
    host = word(store, "uris").partition("://")[2]
    parts = host.split(".")
    return parts[1] if len(parts) > 2 and parts[0] == "kinesis" and "amazonaws" in host else DEFAULT_REGION


def connection(store: StoreDefinition) -> Mapping[str, PropertyValue | str | None]:
    """Options of source, sink and client; without a key, botocore looks for the machine's own credentials. A local
    server has no roles: under its overlay, profile and role are left out."""
    roles = {"profile": PROFILE, "role_arn": ROLE, "external_id": EXTERNAL_ID, "sts_endpoint_url": STS}
    return {
        "region": region_of(store),
        "endpoint_url": store.properties.get("uris"),
        "access_key_id": store.properties.get(KEY),
        "secret_access_key": store.properties.get(SECRET),
        "session_token": store.properties.get(TOKEN),
        **({} if store.overlaid else {option: store.properties.get(name) for option, name in roles.items()}),
    }
