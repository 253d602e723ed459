"""What a mistake in the SQL becomes: a failing asset with the mistake's text, instead of a dead code location."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import dagster as dg

from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, ProjectError
from ds_dagster.names import safe_name
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import PREFIX
from ds_dagster.orchestration.props import RelationProps, text_of
from ds_dagster.orchestration.translator import COMPILES, DsTranslator
from ds_dagster.project import BrokenRelation


def failing_asset(spec: dg.AssetSpec, diagnostics: Sequence[Diagnostic]) -> dg.AssetsDefinition:
    """An asset whose ``compiles`` check fails and whose materialization raises, both with these diagnostics."""
    text, condition = text_of(diagnostics), diagnostics[0].condition

    @dg.multi_asset(
        name=safe_name("refused_" + "_".join(spec.key.path)),
        specs=[spec],
        check_specs=[dg.AssetCheckSpec(COMPILES, asset=spec.key, description="Its SQL is valid.")],
    )
    def refused() -> Iterator[dg.AssetCheckResult]:
        """Says what is wrong with the SQL."""
        yield dg.AssetCheckResult(passed=False, asset_key=spec.key, check_name=COMPILES, description=text)
        raise dg.Failure(description=text, metadata={f"{PREFIX}/condition": condition}, allow_retries=False)

    return refused


def shown_props(project: DsProject, translator: DsTranslator) -> list[RelationProps]:
    """The relations of a project; those that the translator refuses (an owner that is none) become broken ones.

    Raises:
        ProjectError: there are such, and the project is strict.
    """
    shown = [_checked(props, translator) for props in project.props]
    if project.is_strict:
        found = [
            d
            for before, after in zip(project.props, shown, strict=True)
            if after is not before
            for d in (after.broken.diagnostics if after.broken else ())
        ]
        if found:
            raise ProjectError(found)
    return shown


def _checked(props: RelationProps, translator: DsTranslator) -> RelationProps:
    try:
        translator.get_asset_spec(props)
    except DsError as problem:
        relation = props.relation
        assert relation is not None
        found = BrokenRelation(props.name, props.kind, relation.span, (problem.diagnostic(),), props.text)
        return replace(props, relation=None, queries=(), broken=found)
    return props
