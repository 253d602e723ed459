"""``ds doctor --online``: checks every secret, schema registry and store of the project, and shows fixes.

All are probed at the same time, within one time limit. Nothing is created or changed. A call that does not answer in
time stays in a thread that does not keep the process alive.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from ds_dagster.catalog.entity import ProbeResult
from ds_dagster.catalog.io_spec import Resolver
from ds_dagster.catalog.properties.values import PropertyValue, secret_reference
from ds_dagster.catalog.reading.skew import TellsTime
from ds_dagster.catalog.schemas.registry import RegistryDefinition
from ds_dagster.diagnostics import Diagnostic
from ds_dagster.errors import DsError, error
from ds_dagster.local.doctor import Fact
from ds_dagster.places.bucket import Bucket
from ds_dagster.project.load import LoadedProject, store_admin
from ds_dagster.redaction import Redactor
from ds_dagster.runtime.checkpoints import bucket_address
from ds_dagster.runtime.connecting import resolver
from ds_dagster.settings import Settings
from ds_dagster.stores.schema_registry import SchemaRegistry

PROBE_SUBJECT = "ds-doctor-probe"
"""A subject that does not exist: a registry that reports this is reachable and accepts our login."""
CHECKPOINTS = "checkpoints"
Probe = Callable[[], ProbeResult]


def examine_online(project: LoadedProject, seconds: float) -> tuple[Fact, ...]:
    """Facts about all systems that the project connects to; refused declarations first.

    Args:
        project: with the declarations.
        seconds: time limit, for all probes together.
    """
    redactor = Redactor()
    probes = dict(_probes(project, redactor))
    answers: queue.SimpleQueue[tuple[str, Fact]] = queue.SimpleQueue()
    for name, probe in probes.items():
        work = partial(_answer, name, probe, redactor, answers)
        threading.Thread(target=work, name=f"ds-probe-{name}", daemon=True).start()
    facts = _collected(answers, probes, seconds)
    silent = f"no answer in {seconds:g} s"
    fix = "check address and network, or use a longer --timeout (a sleeping warehouse takes a minute)"
    return (*_refused(project), *(facts.get(name) or Fact(name, False, silent, fix) for name in probes))


def store_findings(project: LoadedProject, seconds: float) -> Iterator[Diagnostic]:
    """Stores that do not answer or refuse our login, with the place of their declaration, and the bucket of
    checkpoints."""
    stores = {f"store {store.name}": store for store in project.catalog.stores.values()}
    for fact in examine_online(project, seconds):
        if fact.name == CHECKPOINTS and not fact.ok:
            yield replace(error("CHECKPOINTS_NOT_USABLE", found=fact.found).diagnostic(), hint=fact.fix)
        if fact.name in stores and not fact.ok:
            store = stores[fact.name]
            problem = error("STORE_NOT_USABLE", span=store.origin.span, store=store.name, found=fact.found)
            yield replace(problem.diagnostic(), hint=fact.fix or problem.hint)


def _collected(
    answers: queue.SimpleQueue[tuple[str, Fact]], probes: Mapping[str, Probe], seconds: float
) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    end = time.monotonic() + seconds
    while len(facts) < len(probes) and (left := end - time.monotonic()) > 0:
        try:
            name, fact = answers.get(timeout=left)
        except queue.Empty:
            break
        facts[name] = fact
    return facts


def _refused(project: LoadedProject) -> Iterator[Fact]:
    """Errors of declarations; refused stores cannot be probed."""
    names = project.catalog.refused_stores
    shown: set[Diagnostic] = set()
    for problem in project.errors if names else ():
        if problem.span is not None and problem not in shown and not problem.caused_by:
            shown.add(problem)
            yield Fact(f"at {problem.span}", False, problem.message, problem.hint)


def _probes(project: LoadedProject, redactor: Redactor) -> Iterator[tuple[str, Probe]]:
    if project.settings.checkpoints.in_bucket:
        yield CHECKPOINTS, partial(_checkpoints, project.settings, redactor)
    for secret in project.catalog.secrets:
        yield f"secret {secret}", partial(_secret, secret, _resolver(project, secret, redactor))
    for registry in project.catalog.registries.values():
        resolve = _resolver(project, registry.name, redactor)
        yield f"registry {registry.name}", partial(_registry, registry, resolve)
    for store in project.catalog.stores.values():
        if store.origin.text or _keeps_views(project, store.name):
            resolve = _resolver(project, store.name, redactor)
            yield f"store {store.name}", partial(_store, project, store.name, resolve)
            if read := _read_streams(project, store.name):
                yield f"clock of {store.name}", partial(_clock, project, store.name, read, resolve)


def _resolver(project: LoadedProject, name: str, redactor: Redactor) -> Resolver:
    resolve = resolver(project.settings, name)

    def resolved(value: PropertyValue) -> str:
        text = resolve(value)
        if value.secret:
            redactor.remember(text)
        return text

    return resolved


def _checkpoints(settings: Settings, redactor: Redactor) -> ProbeResult:
    address = bucket_address(settings)
    assert address is not None
    for key in (address.secret_access_key, address.session_token):
        if key:
            redactor.remember(key)
    Bucket(address).check(settings.checkpoints.prefix)
    return ProbeResult(True, f"{settings.checkpoints.url} can be written, and keeps what must be new")


def _secret(name: str, resolve: Resolver) -> ProbeResult:
    resolve(PropertyValue(secret_reference(name), secret=True))
    return ProbeResult(True, "can be read")


def _registry(registry: RegistryDefinition, resolve: Resolver) -> ProbeResult:
    with closing(SchemaRegistry(registry.spec, resolve)) as client:
        client.latest(PROBE_SUBJECT)
        return ProbeResult(True, f"answers at {client.address}")


def _store(project: LoadedProject, name: str, resolve: Resolver) -> ProbeResult:
    with closing(store_admin(project, name, resolve)) as admin:
        return admin.probe()


def _keeps_views(project: LoadedProject, store: str) -> bool:
    """Whether a relation is in a store, which may exist without CREATE STORE."""
    return any(relation.store == store for relation in project.catalog.relations.values())


def _read_streams(project: LoadedProject, store: str) -> list[str]:
    """Entities of a store that queries read as streams."""
    scans = (scan.relation for query in project.queries.values() for scan in query.scans)
    return sorted({relation.entity for relation in scans if relation.store == store})


def _clock(project: LoadedProject, name: str, entities: Sequence[str], resolve: Resolver) -> ProbeResult:
    """Compare this machine's clock with the clock that stamps the records, which decides when windows close."""
    with closing(store_admin(project, name, resolve)) as admin:
        skew = admin.skew(entities) if isinstance(admin, TellsTime) else None
    if skew is None:
        return ProbeResult(True, "does not stamp records that queries read")
    fix = "set the clocks (NTP), here or on the server: windows over times of the server close by both clocks"
    return ProbeResult(skew.is_harmless, skew.text(), hint="" if skew.is_harmless else fix)


def _answer(name: str, probe: Probe, redactor: Redactor, answers: queue.SimpleQueue[tuple[str, Fact]]) -> None:
    """The boundary of one probe: its result or any exception becomes a fact."""
    began = time.monotonic()
    try:
        result = probe()
    except DsError as problem:
        result = ProbeResult(False, problem.message, hint=_hint(problem))
    except Exception as problem:  # noqa: BLE001, the boundary of one probe: the others go on
        result = ProbeResult(False, f"{type(problem).__name__}: {problem}", hint="a bug of ds-dagster or of the driver")
    taken = result if result.milliseconds else replace(result, milliseconds=int((time.monotonic() - began) * 1000))
    text = redactor(f"{taken.message}, {taken.milliseconds} ms" if taken.ok else taken.message)
    answers.put((name, Fact(name, taken.ok, text, redactor(taken.hint))))


def _hint(problem: DsError) -> str:
    """The condition's hint; for a fault that may pass by itself, also that jobs retry."""
    again = "; jobs retry by themselves" if problem.fault.hint in ("back_off", "soon") else ""
    return problem.hint if "by itself" in problem.hint else problem.hint + again
