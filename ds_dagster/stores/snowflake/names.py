"""Names in Snowflake: the identifier for a name in SQL or in a property.

Snowflake folds identifiers to upper case unless they are quoted
(https://docs.snowflake.com/en/sql-reference/identifiers-syntax), our dialect to lower case. A plain name in our dialect
becomes a plain name in Snowflake, so that users need not quote; a name that is quoted in our dialect because of its
case or its signs is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

from sqlglot import exp

from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import error
from ds_dagster.stores.identifiers import quoted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_QUOTED = re.compile(r'"(?:[^"]|"")+"')

CLOUD_OF_REGION = "aws"
PLAIN_REGIONS = MappingProxyType(
    {
        "us-west-2": "",
        **{name: name for name in ("us-east-1", "eu-west-1", "eu-central-1", "ap-southeast-1", "ap-southeast-2")},
    }
)
"""AWS regions whose segment in an account locator has no cloud after it (us-west-2: no segment at all); all others are
``region.cloud``. Source: https://docs.snowflake.com/en/user-guide/admin-account-identifier, format 2."""


def stored_name(text: str) -> str:
    """A name written in a property: plain → upper case, in double quotes → the text inside, else unchanged."""
    if _PLAIN.fullmatch(text):
        return text.upper()
    return text[1:-1].replace('""', '"') if _QUOTED.fullmatch(text) else text


def column_name(name: str) -> str:
    """Our column name (in lower case unless it was quoted) → its name in Snowflake."""
    return name.upper() if _PLAIN.fullmatch(name) and name == name.lower() else name


def check_columns(relation: Relation, store: str) -> None:
    """Check that no two columns get the same name in Snowflake.

    Raises:
        UserError: TARGET_COLUMNS_CLASH.
    """
    names: dict[str, str] = {}
    for column in relation.columns:
        stored = column_name(column.name)
        if stored in names:
            raise error(
                "TARGET_COLUMNS_CLASH",
                span=relation.span,
                first=names[stored],
                second=column.name,
                relation=str(relation.name),
                column=stored,
                store=store,
            )
        names[stored] = column.name


def table(path: Sequence[str], alias: str = "") -> exp.Table:
    """``"DATABASE"."SCHEMA"."TABLE"``."""
    catalog, db, name = path
    built = exp.Table(this=quoted(name), db=quoted(db), catalog=quoted(catalog))
    if alias:
        built.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return built


def shown_path(path: Sequence[str]) -> str:
    """Parts of a name joined with dots, quoted if necessary; the inverse of :func:`split_path`."""
    return ".".join(
        part if _PLAIN.fullmatch(part) and part == part.upper() else '"' + part.replace('"', '""') + '"'
        for part in path
    )


def split_path(text: str) -> tuple[str, ...]:
    """``db.schema."Table"`` → stored names of its parts."""
    return tuple(stored_name(part) for part in re.findall(r'"(?:[^"]|"")+"|[^."]+', text))


def account_name(account_id: str, region: str) -> str:
    """The account name for the connector: a locator gets the segment of its region, other names are unchanged.

    Args:
        account_id: ``organization-account``, a locator (``xy12345``), or a locator with its region.
        region: ``AWS us-east-1``, ``us-east-2.aws`` or empty.
    """
    if not region or "-" in account_id or "." in account_id:
        return account_id
    cloud, separator, place = region.strip().lower().partition(" ")
    if not separator:
        return f"{account_id}.{cloud}"
    segment = PLAIN_REGIONS.get(place.strip()) if cloud == CLOUD_OF_REGION else None
    if segment is None:
        segment = f"{place.strip()}.{cloud}"
    return f"{account_id}.{segment}" if segment else account_id
