"""Sources (relations that no query fills): external assets that can be observed, by hand and by the health sensor."""

import hashlib
import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.properties.values import PropertyValue, resolve
from ds_dagster.catalog.relation import Relation
from ds_dagster.errors import DsError
from ds_dagster.observation import EntityObservation, observe_relations
from ds_dagster.orchestration.ds_project import DsProject
from ds_dagster.orchestration.events import PREFIX
from ds_dagster.orchestration.health.cursor import Cursor, Said
from ds_dagster.orchestration.props import RelationProps
from ds_dagster.orchestration.translator import DsTranslator, without_beta_warnings
from ds_dagster.runtime.processes.environment import engine_environment

SOURCES_NAME = "ds_sources"
OBSERVE_SECONDS = 900.0
"""Seconds between two looks of the sensor at one entity: every look is a few calls to its store."""
FIRST_SECONDS = 60.0
"""Seconds between two looks at an entity until a look succeeds."""
REPEAT_SECONDS = 6 * 3600.0
"""Seconds after which an unchanged entity is reported again."""
BUDGET_SECONDS = 15.0
"""Seconds after which a tick, or a launch, looks at no further entity."""
TABLES = ("table", "materialized_view")


def observable(props: RelationProps) -> bool:
    """Whether a relation is a source (no query fills it) and was not refused."""
    return props.relation is not None and props.broken is None and not props.is_executable


def build_ds_sources(project: DsProject, relations: Sequence[RelationProps], specs: Sequence[dg.AssetSpec]) -> Any:
    """One observable multi-asset over sources; observing looks at their entities."""
    by_key = {spec.key: props for spec, props in zip(specs, relations, strict=True)}

    def ds_sources(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        wanted = {str(by_key[key].name): key for key in by_key if key in context.selected_asset_keys}
        relations = [by_key[key].relation for key in wanted.values()]
        problems: list[str] = []
        for relation, looked in look(project, [relation for relation in relations if relation is not None]):
            if isinstance(looked, DsError):
                problems.append(f"{relation.name}: {looked}")
                continue
            version = dg.DataVersion(looked.fingerprint)
            key = wanted[str(relation.name)]
            yield dg.ObserveResult(asset_key=key, metadata=metadata_of(relation, looked), data_version=version)
        if problems:
            raise dg.Failure("\n".join(problems), metadata={f"{PREFIX}/failed": len(problems)})

    with without_beta_warnings():
        decorate: Any = dg.multi_observable_source_asset(
            name=project.named(SOURCES_NAME),
            specs=list(specs),
            can_subset=True,
            description="Look at the entities that others fill.",
        )
        return decorate(ds_sources)


def observe_first(
    context: dg.AssetExecutionContext, project: DsProject, translator: DsTranslator, relations: Iterable[RelationProps]
) -> None:
    """Observe the never-observed sources of ``relations`` before these are materialized: a first data version that
    comes later would make every reader stale. Ends after :data:`BUDGET_SECONDS`; the sensor looks at the remaining
    sources."""
    wanted = {name for props in relations for name in props.depends_on}
    for name in wanted:  # forget the versions from the start of the step: the sensor may have looked since
        context.get_step_execution_context().wipe_input_asset_version_info(translator.get_asset_key(name))
    sources = [props.relation for props in project.props if observable(props) and props.name in wanted]
    unseen = [
        relation
        for relation in sources
        if relation is not None
        and not context.instance.fetch_observations(translator.get_asset_key(relation.name), limit=1).records
    ]
    end = time.monotonic() + BUDGET_SECONDS
    with closing(look(project, unseen)) as looks:
        for relation, looked in looks:
            key = translator.get_asset_key(relation.name)
            if isinstance(looked, DsError):
                context.log.info(f"{relation.name} is not observed: {looked.message} [{looked.condition}]")
            else:
                context.instance.report_runless_asset_event(_observation(key, relation, looked))
            if time.monotonic() >= end:
                return


def _observation(key: dg.AssetKey, relation: Relation, observed: EntityObservation) -> dg.AssetObservation:
    return dg.AssetObservation(
        key, metadata=metadata_of(relation, observed), tags={DATA_VERSION_TAG: observed.fingerprint}
    )


def look(
    project: DsProject, relations: Sequence[Relation]
) -> Generator[tuple[Relation, EntityObservation | DsError], None, None]:
    """Look at entities, one after another; an entity that cannot be seen yields its error. Secrets are resolved in this
    process, as for store resources."""
    environment = engine_environment(project.root)

    def resolver_of(store: str) -> Resolver:
        def resolver(value: PropertyValue) -> str:
            return resolve(value, environment, used_by=f"store {store}")

        return resolver

    resolvers = {relation.store: resolver_of(relation.store) for relation in relations}
    return observe_relations(project.project, relations, resolvers)


def metadata_of(relation: Relation, observed: EntityObservation) -> dict[str, Any]:
    """Metadata of an observation: store and entity, fingerprint of the schema, size, newest positions, settings."""
    figures: dict[str, Any] = {
        "store": observed.store,
        "entity": observed.entity,
        "schema_fingerprint": observed.fingerprint,
        "bytes": observed.bytes,
        **observed.counts,
        **{name: dg.MetadataValue.json(dict(values)) for name, values in _maps(observed).items() if values},
    }
    size = "dagster/row_count" if relation.kind in TABLES else f"{PREFIX}/records"
    metadata = {f"{PREFIX}/{name}": value for name, value in figures.items() if value is not None}
    return metadata | ({size: observed.size} if observed.size is not None else {})


def _maps(observed: EntityObservation) -> Mapping[str, Mapping[str, str]]:
    return {"newest": observed.newest, "settings": observed.settings}


@dataclass(frozen=True, slots=True)
class Looked:
    """The sensor's report on entities: events, memory, and reasons for entities it could not look at."""

    events: tuple[dg.AssetObservation, ...]
    cursor: Cursor
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceWatch:
    """The sensor's part: looks at intervals, reports changes.

    Attributes:
        project: loaded.
        translator: gives asset keys.
        relations: sources.
        seconds: between two looks at one entity.
        slow: factor on ``seconds`` after the first successful look.
    """

    project: DsProject
    translator: DsTranslator
    relations: tuple[RelationProps, ...]
    seconds: float = OBSERVE_SECONDS
    slow: float = field(default=1.0)

    def tick(self, cursor: Cursor, now: float, monotonic: Callable[[], float]) -> Looked:
        """Look at entities that are due. The first look is at the first tick, so that later launches know the data
        version of their sources."""
        said = dict(cursor.said)
        keys = {self._path(props): props for props in self.relations}
        for path in keys:
            said.setdefault(path, Said())
        due = [path for path in keys if now - said[path].checked >= self._pause(said[path])]
        relations = {str(keys[path].name): path for path in sorted(due, key=lambda path: said[path].checked)}
        wanted = [relation for path in relations.values() if (relation := keys[path].relation) is not None]
        events: list[dg.AssetObservation] = []
        problems: list[str] = []
        end = monotonic() + BUDGET_SECONDS
        with closing(look(self.project, wanted)) as looks:
            for relation, looked in looks:
                path = relations[str(relation.name)]
                if isinstance(looked, DsError):
                    problems.append(f"{relation.entity}: {looked.message} [{looked.condition}]")
                    said[path] = replace(said[path], checked=now)
                else:
                    said[path], event = self._told(relation, looked, said[path], now)
                    events += [event] if event else []
                if monotonic() >= end:
                    break
        return Looked(tuple(events), replace(cursor, said=said), tuple(problems))

    def _told(
        self, relation: Relation, observed: EntityObservation, said: Said, now: float
    ) -> tuple[Said, dg.AssetObservation | None]:
        figures = [observed.fingerprint, observed.size, observed.bytes, dict(observed.newest), dict(observed.counts)]
        mark = hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()[:16]
        if mark == said.position and now - said.observed < REPEAT_SECONDS:
            return replace(said, checked=now), None
        key = self.translator.get_asset_key(relation.name)
        return replace(said, checked=now, observed=now, position=mark), _observation(key, relation, observed)

    def _pause(self, said: Said) -> float:
        """Seconds between two looks; fewer while no look has succeeded."""
        return min(self.seconds, FIRST_SECONDS) if not said.observed else self.seconds * self.slow

    @property
    def paths(self) -> frozenset[str]:
        """Asset keys as slash-separated paths."""
        return frozenset(map(self._path, self.relations))

    def _path(self, props: RelationProps) -> str:
        return "/".join(self.translator.get_asset_key(props.name).path)
