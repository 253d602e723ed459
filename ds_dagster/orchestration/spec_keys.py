"""Keys that follow specs: a spec made elsewhere may have another key than the translator gives, and everything else
(dependencies, checks, column lineage, runs) has to use the spec's."""

from collections.abc import Callable, Sequence

import dagster as dg

from ds_dagster.errors import DsError
from ds_dagster.names import QualifiedName
from ds_dagster.orchestration.props import BrokenFile, RelationProps
from ds_dagster.orchestration.refused import without_refused
from ds_dagster.orchestration.translator import DsTranslator

LINEAGE = "dagster/column_lineage"


class SpecKeys(DsTranslator):
    """Takes specs from ``make``, and keys from these specs.

    Args:
        key_prefix: of the project.
        all_props: every relation of the project.
        make: relation → spec.
        key_of: relation → the key that ``make`` uses for dependencies.
    """

    def __init__(
        self,
        key_prefix: Sequence[str],
        all_props: Sequence[RelationProps],
        make: Callable[[RelationProps], dg.AssetSpec],
        key_of: Callable[[QualifiedName], dg.AssetKey],
    ) -> None:
        super().__init__(key_prefix)
        self._make, self._key_of = make, key_of
        self._keys = {props.name: self._valid(props).key for props in all_props}

    def _valid(self, props: RelationProps) -> dg.AssetSpec:
        """The spec; for a relation that is refused, the spec without the refused tags or statement."""
        try:
            return self._make(props)
        except DsError as problem:
            return self._make(without_refused(props, problem))

    def get_asset_key(self, name: QualifiedName) -> dg.AssetKey:
        """The key in the spec; for an unknown relation the key that dependencies use."""
        return self._keys.get(name) or self._key_of(name)

    def get_asset_spec(self, props: RelationProps) -> dg.AssetSpec:
        """The spec, with dependencies and column lineage under the keys of specs; other dependencies remain."""
        spec = self._make(props)
        ours = {self._key_of(name): self.get_asset_key(name) for name in props.depends_on}
        own_deps = [ours[dep.asset_key] for dep in spec.deps if dep.asset_key in ours]
        added = [dep for dep in spec.deps if dep.asset_key not in ours]
        lineage = {LINEAGE: self._column_lineage(props)} if LINEAGE in spec.metadata and props.lineage else {}
        return spec.replace_attributes(deps=[*own_deps, *added], metadata={**spec.metadata, **lineage})


class TranslatorKeys(SpecKeys):
    """A translator of a user, whose ``get_asset_spec`` changes keys."""

    def __init__(self, translator: DsTranslator, all_props: Sequence[RelationProps]) -> None:
        super().__init__(translator.key_prefix, all_props, translator.get_asset_spec, translator.get_asset_key)
        self._translator = translator

    @property
    def is_needed(self) -> bool:
        """Whether the translator gives a relation another key than its spec has."""
        return any(self._translator.get_asset_key(name) != key for name, key in self._keys.items())

    def get_check_specs(self, props: RelationProps) -> list[dg.AssetCheckSpec]:
        """The translator's checks, on the asset of the spec."""
        key = self.get_asset_key(props.name)
        specs = self._translator.get_check_specs(props)
        return [spec.replace_key(dg.AssetCheckKey(key, spec.name)) for spec in specs]

    def get_file_spec(self, file: BrokenFile) -> dg.AssetSpec:
        """The translator's."""
        return self._translator.get_file_spec(file)
