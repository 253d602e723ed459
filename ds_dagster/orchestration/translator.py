"""Relation → asset spec: the one place where keys, groups, kinds, owners and metadata are decided. Override it to change them."""

import re
import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from ds_dagster.errors import error
from ds_dagster.names import QualifiedName, safe_name
from ds_dagster.orchestration.props import RelationProps

KIND_CHIPS: Mapping[str, str] = {
    "stream": "stream",
    "changelog": "changelog",
    "materialized_view": "view",
    "table": "table",
}
MAX_KINDS = 10  # Dagster refuses more on one asset
_DURATION = re.compile(r"^\s*(\d+)\s*(s|m|h|d)[a-z]*\s*$", re.I)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class DsTranslator:
    """Maps relations to Dagster. Subclass and override :meth:`get_asset_spec` (or a smaller method); the same object is used
    when definitions load and when assets run.

    .. code-block:: python

        class Mine(DsTranslator):
            def get_asset_spec(self, props):
                return super().get_asset_spec(props).replace_attributes(group_name="streaming")
    """

    def get_asset_key(self, name: QualifiedName) -> dg.AssetKey:
        """``[database, schema, relation]``; characters Dagster refuses in op outputs become underscores."""
        return dg.AssetKey([safe_name(part) for part in name.parts])

    def get_group_name(self, props: RelationProps) -> str:
        """``@group`` of the comment, else the SQL file's name."""
        comment = props.relation.comment if props.relation else None
        return safe_name(comment.group) if comment and comment.group else safe_name(props.default_group)

    def get_kinds(self, props: RelationProps) -> set[str]:
        """Engine, store and kind of relation, at most ten."""
        engine = ("spark",) if props.is_executable else ()
        return set((*engine, *props.dagster_kinds, KIND_CHIPS.get(props.kind, props.kind))[:MAX_KINDS])

    def get_description(self, props: RelationProps) -> str:
        """The comment above the statement, then the SQL."""
        comment = props.relation.comment.description if props.relation else ""
        fenced = f"```sql\n{props.text}\n```" if props.text else ""
        return "\n\n".join(part for part in (comment, fenced) if part)

    def get_metadata(self, props: RelationProps) -> dict[str, Any]:
        """Column schema and lineage, where it is stored, where it is written, by Dagster's own keys."""
        metadata: dict[str, Any] = {"dagster/code_references": _code_references(props)}
        if props.relation is None:
            return metadata
        metadata["dagster/column_schema"] = _column_schema(props)
        metadata["dagster/table_name"] = props.table_name
        metadata["dagster/storage_kind"] = props.storage_kind
        metadata["dagster/uri"] = props.uri
        metadata["ds_dagster/store"] = props.relation.store
        if props.lineage:
            metadata["dagster/column_lineage"] = dg.TableColumnLineage(
                {
                    column: [dg.TableColumnDep(self.get_asset_key(name), source) for name, source in sources]
                    for column, sources in props.lineage.items()
                }
            )
        if props.overlay:
            metadata["ds_dagster/overlay"] = dg.MetadataValue.path(props.overlay)
        return metadata

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        """The whole spec of one relation."""
        comment = props.relation.comment if props.relation else None
        return dg.AssetSpec(
            key=self.get_asset_key(props.name),
            deps=[self.get_asset_key(name) for name in props.depends_on],
            description=self.get_description(props),
            metadata=self.get_metadata(props),
            group_name=self.get_group_name(props),
            code_version=props.code_version,
            owners=list(comment.owners) if comment else None,
            tags={"ds/kind": props.kind, **({"ds/store": safe_name(props.relation.store)} if props.relation else {})},
            kinds=self.get_kinds(props),
            freshness_policy=_freshness(comment.freshness) if comment and comment.freshness else None,
        )

    def get_check_specs(self, props: RelationProps) -> list[dg.AssetCheckSpec]:
        """The health checks of a relation that a long-lived query fills."""
        if not props.is_executable or props.is_finite:
            return []
        key = self.get_asset_key(props.name)
        return [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in CHECKS.items()]


CHECKS: Mapping[str, str] = {
    "running": "its query runs: the engine reports it and it has not failed",
    "lag": "it reads its sources about as fast as they fill",
    "progress": "batches finish while there is input",
    "definition_current": "the query that runs is the one in the SQL file",
}


def asset_keys_must_differ(keys: Mapping[dg.AssetKey, list[QualifiedName]]) -> None:
    """Raises: UserError ASSET_KEY_COLLISION naming the relations that a translator maps to one key."""
    for key, names in keys.items():
        if len(names) > 1:
            raise error("ASSET_KEY_COLLISION", key="/".join(key.path), relations=[str(name) for name in names])


def _column_schema(props: RelationProps) -> dg.TableSchema:
    relation = props.relation
    columns = relation.columns if relation else ()
    primary = relation.primary_key if relation else ()
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                type=str(column.type),
                constraints=dg.TableColumnConstraints(nullable=column.nullable, unique=primary == (column.name,)),
                tags={"primary_key": ""} if column.name in primary else None,
            )
            for column in columns
        ]
    )


def _code_references(props: RelationProps) -> dg.CodeReferencesMetadataValue:
    with warnings.catch_warnings():  # the classes are marked beta and warn once per construction
        warnings.simplefilter("ignore")
        return dg.CodeReferencesMetadataValue(
            code_references=[dg.LocalFileCodeReference(file_path=props.file, line_number=props.line, label="sql")]
        )


def _freshness(text: str) -> dg.FreshnessPolicy:
    match = _DURATION.match(text)
    if match is None or int(match[1]) * _SECONDS[match[2].lower()] < 60:
        raise error("FRESHNESS_INVALID", value=text)
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(seconds=int(match[1]) * _SECONDS[match[2].lower()]))
