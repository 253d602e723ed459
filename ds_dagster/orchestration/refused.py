"""Refused statements as assets: each fails with the mistake's text, and the code location stays alive."""

from collections.abc import Iterator, Sequence

import dagster as dg

from ds_dagster.diagnostics import Diagnostic
from ds_dagster.names import safe_name
from ds_dagster.orchestration.events import PREFIX
from ds_dagster.orchestration.props import text_of
from ds_dagster.orchestration.translator import COMPILES


def failing_asset(spec: dg.AssetSpec, diagnostics: Sequence[Diagnostic]) -> dg.AssetsDefinition:
    """An asset whose ``compiles`` check fails and whose materialization raises, both with these diagnostics."""
    text, condition = text_of(diagnostics), diagnostics[0].condition

    @dg.multi_asset(
        name=safe_name("refused_" + "_".join(spec.key.path)),
        specs=[spec],
        check_specs=[dg.AssetCheckSpec(COMPILES, asset=spec.key, description="Its SQL is valid.")],
    )
    def refused() -> Iterator[dg.AssetCheckResult]:
        """Report the mistakes in the SQL."""
        yield dg.AssetCheckResult(passed=False, asset_key=spec.key, check_name=COMPILES, description=text)
        raise dg.Failure(description=text, metadata={f"{PREFIX}/condition": condition}, allow_retries=False)

    return refused
