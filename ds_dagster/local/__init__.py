"""Real local servers for development and tests: Kafka, Kinesis, Postgres, without Docker."""

from __future__ import annotations

from ds_dagster.local.addresses import LocalAddresses as LocalAddresses
from ds_dagster.local.servers import ServerStatus as ServerStatus
from ds_dagster.local.servers import addresses as addresses
from ds_dagster.local.servers import down as down
from ds_dagster.local.servers import postgres_password as postgres_password
from ds_dagster.local.servers import status as status
from ds_dagster.local.servers import up as up
