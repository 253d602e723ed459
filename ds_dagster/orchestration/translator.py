"""Relation → asset spec: the one place where keys, groups, kinds, owners and metadata are decided. Override it to
change them."""

import operator
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import dagster as dg

from ds_dagster.clock import duration_seconds
from ds_dagster.diagnostics import Span
from ds_dagster.errors import error
from ds_dagster.names import QualifiedName, safe_name
from ds_dagster.orchestration.automation import automation_condition
from ds_dagster.orchestration.health.freshness import freshness
from ds_dagster.orchestration.partitions import time_windows
from ds_dagster.orchestration.props import BrokenFile, RelationProps
from ds_dagster.sql.annotations import Freshness, is_owner, max_lag_of, renamed_from_of, wrong_tags
from ds_dagster.sql.printing import print_constraint

KIND_CHIPS: Mapping[str, str] = {
    "stream": "stream",
    "changelog": "changelog",
    "materialized_view": "view",
    "table": "table",
}
MAX_KINDS = 10
"""Dagster refuses more kinds on one asset."""

CHECKS: Mapping[str, str] = {
    "running": "Its query runs: the engine reports it and it has not failed.",
    "lag": "It reads its sources about as fast as they fill.",
    "progress": "Batches finish while there is input.",
    "definition_current": "The query that runs is the one in the SQL file, as it was when the code location was last "
    "loaded: reload it after a change.",
}
COMPILES = "compiles"
FRESH = "fresh"
"""The check of a relation with ``@freshness``."""


class DsTranslator:
    """Maps relations to Dagster. Subclass and override :meth:`get_asset_spec` (or a smaller method); the same object
    is used when definitions load and when assets run.

    .. code-block:: python

        class Mine(DsTranslator):
            def get_asset_spec(self, props):
                return super().get_asset_spec(props).replace_attributes(group_name="streaming")

    Args:
        key_prefix: parts before every asset key; must equal the project's.
    """

    key_prefix: tuple[str, ...] = ()

    def __init__(self, key_prefix: Sequence[str] = ()) -> None:
        self.key_prefix = tuple(key_prefix)

    def get_asset_key(self, name: QualifiedName) -> dg.AssetKey:
        """``[database, schema, relation]`` after the prefix; characters Dagster refuses in op outputs become
        underscores. Specs, dependencies, checks and column lineage all take their keys from here."""
        return dg.AssetKey([*self.key_prefix, *(safe_name(part) for part in name.parts)])

    def get_group_name(self, props: RelationProps) -> str:
        """``@group`` of the comment (``a/b`` nests), else the SQL file's name."""
        comment = props.relation.comment if props.relation else None
        written = comment.group if comment and comment.group else props.default_group
        return "/".join(safe_name(part.strip()) for part in written.split("/") if part.strip()) or "default"

    def get_kinds(self, props: RelationProps) -> set[str]:
        """Engine, store, kind of relation, then ``@kinds`` of the comment; at most ten."""
        if props.relation is None:
            return {"sql"}
        engine = ("spark",) if props.is_executable else ()
        written = [kind.lower() for kind in re.split(r"[,\s]+", props.tag("kinds")) if kind]
        kinds = (*engine, *props.dagster_kinds, KIND_CHIPS.get(props.kind, props.kind), *written)
        return set(tuple(dict.fromkeys(kinds))[:MAX_KINDS])

    def get_owners(self, props: RelationProps) -> list[str]:
        """``@owner`` of the comment.

        Raises:
            UserError: OWNER_INVALID.
        """
        owners = list(props.relation.comment.owners) if props.relation else []
        for owner in owners:
            if not is_owner(owner):
                raise error("OWNER_INVALID", span=_span(props), owner=owner, name=owner.removeprefix("@"))
        return owners

    def get_description(self, props: RelationProps) -> str:
        """The comment above the statement, then the SQL."""
        comment = props.relation.comment.description if props.relation else ""
        fenced = f"```sql\n{props.text}\n```" if props.text else ""
        return "\n\n".join(part for part in (comment, fenced) if part)

    def get_metadata(self, props: RelationProps) -> dict[str, Any]:
        """Column schema and lineage, where it is stored, where it is written, by Dagster's own keys.

        Raises:
            UserError: MAX_LAG_INVALID, CHECK_INVALID.
        """
        _refuse_tags(props, "CHECK_INVALID")
        metadata: dict[str, Any] = {"dagster/code_references": code_reference(props.file, props.line)}
        if props.relation is None:
            return metadata
        metadata |= {
            "dagster/column_schema": _column_schema(props),
            "dagster/table_name": props.table_name,
            "dagster/storage_kind": props.storage_kind,
            "dagster/uri": props.uri,
            "ds_dagster/store": props.relation.store,
        }
        if props.lineage:
            metadata["dagster/column_lineage"] = self._column_lineage(props)
        limit = max_lag_seconds(props)
        if limit is not None:
            metadata["ds_dagster/max_lag_seconds"] = limit
        former = renamed_from_of(props.relation.comment)
        if former:
            metadata["ds_dagster/renamed_from"] = former
        if props.overlay:
            metadata["ds_dagster/overlay"] = dg.MetadataValue.path(props.overlay)
        return metadata

    def get_freshness_policy(self, props: RelationProps) -> dg.FreshnessPolicy | None:
        """``@freshness`` of the comment: Dagster fails it when the last materialization is older.

        Raises:
            UserError: FRESHNESS_INVALID.
        """
        rule = freshness(props)
        return None if rule is None else dg.FreshnessPolicy.time_window(fail_window=timedelta(seconds=rule.seconds))

    def get_automation_condition(self, props: RelationProps) -> dg.AutomationCondition[dg.AssetKey] | None:
        """``@automation`` of the comment: ``on_change`` when the definition changes, for a load also when there is new
        data upstream; ``on_cron`` by a schedule. The sensor ``ds_automation`` evaluates them.

        Raises:
            UserError: AUTOMATION_INVALID.
        """
        _refuse_tags(props, "AUTOMATION_INVALID")
        if not props.is_executable:
            return None
        is_partitioned = self.get_partitions_def(props) is not None
        conditions = [
            automation_condition(rule, is_load=props.is_finite, is_partitioned=is_partitioned)
            for rule in props.automations
        ]
        return reduce(operator.or_, conditions) if conditions else None

    def get_partitions_def(self, props: RelationProps) -> dg.PartitionsDefinition[Any] | None:
        """``@partitions`` in the comment of a load: a run of partitions computes their range of time again.

        Raises:
            UserError: PARTITIONS_INVALID.
        """
        _refuse_tags(props, "PARTITIONS_INVALID")
        return None if props.partitions is None else time_windows(props.partitions)

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        """The whole spec of one relation.

        Raises:
            UserError: OWNER_INVALID, FRESHNESS_INVALID, MAX_LAG_INVALID, CHECK_INVALID, AUTOMATION_INVALID,
                PARTITIONS_INVALID; such a relation is shown without these tags, and its check ``compiles`` fails with
                the reason.
        """
        return dg.AssetSpec(
            key=self.get_asset_key(props.name),
            deps=[self.get_asset_key(name) for name in props.depends_on],
            description=self.get_description(props),
            metadata=self.get_metadata(props),
            group_name=self.get_group_name(props),
            code_version=props.code_version,
            owners=self.get_owners(props),
            tags={"ds/kind": props.kind, **({"ds/store": safe_name(props.relation.store)} if props.relation else {})},
            kinds=self.get_kinds(props),
            freshness_policy=self.get_freshness_policy(props),
            automation_condition=self.get_automation_condition(props),
            partitions_def=self.get_partitions_def(props),
        )

    def get_check_specs(self, props: RelationProps) -> list[dg.AssetCheckSpec]:
        """The health checks of a relation that long-lived queries fill; ``fresh`` if it has ``@freshness``; one for
        each ``@check``, also of loads; one for each constraint, also of sources. An override may leave some out."""
        key, rule = self.get_asset_key(props.name), freshness(props)
        health = CHECKS if props.is_stream else {}
        fresh = {FRESH: _fresh_text(rule)} if props.is_stream and rule is not None else {}
        about = {**health, **fresh, **{limit.name: f"{limit}." for limit in props.thresholds}}
        about |= {name: f"{print_constraint(constraint)}." for name, constraint in props.constraint_checks.items()}
        return [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in about.items()]

    def get_file_spec(self, file: BrokenFile) -> dg.AssetSpec:
        """The failing asset of a SQL file with mistakes that belong to no relation."""
        first = file.diagnostics[0].span
        return dg.AssetSpec(
            key=[*self.key_prefix, "sql_files", safe_name(file.file)],
            description=f"Mistakes in {file.file} that belong to no relation.",
            group_name=safe_name(Path(file.file).stem),
            kinds={"sql"},
            metadata={"dagster/code_references": code_reference(file.path, first.line if first else 1)},
        )

    def _column_lineage(self, props: RelationProps) -> dg.TableColumnLineage:
        return dg.TableColumnLineage(
            {
                column: [dg.TableColumnDep(self.get_asset_key(name), source) for name, source in sources]
                for column, sources in props.lineage.items()
            }
        )


def asset_keys_must_differ(translator: DsTranslator, all_props: tuple[RelationProps, ...]) -> None:
    """Raises: UserError ASSET_KEY_COLLISION with the relations, and their places, that become one asset."""
    by_key: dict[dg.AssetKey, list[RelationProps]] = {}
    for props in all_props:
        by_key.setdefault(translator.get_asset_key(props.name), []).append(props)
    for key, same_key in by_key.items():
        if len(same_key) > 1:
            places = [f"{props.name} ({Path(props.file).name}:{props.line})" for props in same_key]
            raise error("ASSET_KEY_COLLISION", key="/".join(key.path), relations=places)


def max_lag_seconds(props: RelationProps) -> int | None:
    """``@max_lag`` of the comment in seconds, None when there is none.

    Raises:
        UserError: MAX_LAG_INVALID.
    """
    text = max_lag_of(props.relation.comment) if props.relation else ""
    seconds = duration_seconds(text) if text else None
    if text and seconds is None:
        raise error("MAX_LAG_INVALID", span=_span(props), value=text)
    return seconds


def _refuse_tags(props: RelationProps, condition: str) -> None:
    """Raise ``condition`` if a tag of the comment is refused with it."""
    for wrong in wrong_tags(props.relation.comment) if props.relation else ():
        if wrong.condition == condition:
            raise error(condition, span=_span(props), **wrong.params)


def _fresh_text(rule: Freshness) -> str:
    followed = {"rows": "Its last rows", "watermark": "Its event time", "heartbeat": "Its last sign of life"}
    return f"{followed[rule.source]} may be {rule.seconds} s old, and it runs."


def code_reference(file: str, line: int) -> dg.CodeReferencesMetadataValue:
    """A place in a local file; Dagster's UI opens it in an editor."""
    with without_beta_warnings():
        return dg.CodeReferencesMetadataValue(
            code_references=[dg.LocalFileCodeReference(file_path=file, line_number=line, label="sql")]
        )


@contextmanager
def without_beta_warnings() -> Iterator[None]:
    """Silence Dagster's BetaWarning for one call: the choice to use a beta API is ours, not the user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield


def _span(props: RelationProps) -> Span | None:
    return props.relation.span if props.relation else None


def _column_schema(props: RelationProps) -> dg.TableSchema:
    relation = props.relation
    columns = relation.columns if relation else ()
    primary = relation.primary_key if relation else ()
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                type=str(column.type),
                description=props.column_comments.get(column.name),
                constraints=dg.TableColumnConstraints(nullable=column.nullable, unique=primary == (column.name,)),
                tags={"primary_key": ""} if column.name in primary else None,
            )
            for column in columns
        ]
    )
