"""Refused statements as assets: each fails with the mistake's text, and the code location stays alive."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import dagster as dg

from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, error
from ds_dagster.names import safe_name
from ds_dagster.orchestration.events import PREFIX
from ds_dagster.orchestration.props import RelationProps, text_of
from ds_dagster.orchestration.translator import COMPILES
from ds_dagster.project.load import BrokenRelation
from ds_dagster.sql.annotations import without_wrong_tags, wrong_tags


def refused_name(spec: dg.AssetSpec) -> str:
    """The usual name of the op of a failing asset."""
    return safe_name("refused_" + "_".join(spec.key.path))


def failing_asset(spec: dg.AssetSpec, diagnostics: Sequence[Diagnostic], name: str) -> dg.AssetsDefinition:
    """An asset whose ``compiles`` check fails and whose materialization raises, both with these diagnostics. ``name``:
    of its op."""
    text, condition = text_of(diagnostics), diagnostics[0].condition

    @dg.multi_asset(
        name=name,
        specs=[spec],
        check_specs=[dg.AssetCheckSpec(COMPILES, asset=spec.key, description="Its SQL is valid.")],
    )
    def refused() -> Iterator[dg.AssetCheckResult]:
        """Report the mistakes in the SQL."""
        yield dg.AssetCheckResult(passed=False, asset_key=spec.key, check_name=COMPILES, description=text)
        raise dg.Failure(description=text, metadata={f"{PREFIX}/condition": condition}, allow_retries=False)

    return refused


def without_refused(props: RelationProps, problem: DsError) -> RelationProps:
    """A relation that the translator refuses, without its invalid tags; without its statement if the tags are not the
    reason."""
    relation = props.relation
    assert relation is not None
    comment = relation.comment
    wrong = tuple(error(tag.condition, span=relation.span, **tag.params).diagnostic() for tag in wrong_tags(comment))
    if problem.condition in {diagnostic.condition for diagnostic in wrong}:
        right = replace(relation, origin=replace(relation.origin, comment=without_wrong_tags(comment)))
        return replace(props, relation=right, wrong_tags=(*props.wrong_tags, *wrong))
    refused = BrokenRelation(props.name, props.kind, relation.span, (problem.diagnostic(),), props.text)
    return replace(props, relation=None, queries=(), broken=refused)
