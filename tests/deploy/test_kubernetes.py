"""The manifests of deploy/kubernetes: rendered, held against Kubernetes' own field names, with nothing that is missing.

No cluster runs them here. Where kubectl is installed, its Kustomize has to render the same as the tests' own renderer.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ds_dagster.cli.main import cli
from ds_dagster.project.load import compile_texts, read_texts
from ds_dagster.settings import Settings, load_settings
from ds_dagster.version import __version__
from tests.deploy.kustomize import Resource, rendered
from tests.docs.pages import ROOT, blocks

FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())
FIELDS: dict[str, dict[str, str]] = json.loads((ROOT / "tests" / "fixtures" / "kubernetes.json").read_text())["kinds"]
OPERATORS = {"ServiceMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which are not Kubernetes' own."""
SECRETS = {"ds-secrets": {"DS_JOURNAL_URL", "DAGSTER_POSTGRES_URL", "POSTGRES_PASSWORD"}, "ds-stores": set[str]()}
"""Secrets that the user creates, and their keys; of ds-stores those that the project refers to."""


POOL = "prod-with-a-pool"
"""The overlay `prod` with the engine of a compute pool, as a user adds it."""


@pytest.fixture(params=[*OVERLAYS, POOL])
def overlay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param != POOL:
        return FOLDER / "overlays" / str(request.param)
    return with_pool(tmp_path_factory.mktemp("overlays"))


def with_pool(folder: Path) -> Path:
    """A copy of the overlay `prod` that has the components of a compute pool too."""
    prod = FOLDER / "overlays" / "prod"
    copied = Path(shutil.copytree(prod, folder / POOL))
    kustomization = yaml.safe_load((prod / "kustomization.yaml").read_text(encoding="utf-8"))
    kustomization["components"] += ["../../components/shared-state", "../../components/pool"]
    for name in ("resources", "components"):
        kustomization[name] = [
            os.path.relpath(prod / entry, copied) if entry.startswith("..") else entry for entry in kustomization[name]
        ]
    (copied / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return copied


def named(resources: list[Resource], kind: str) -> dict[str, Resource]:
    return {resource["metadata"]["name"]: resource for resource in resources if resource["kind"] == kind}


def pods(resources: list[Resource]) -> Iterator[tuple[str, Resource, dict[str, Any]]]:
    """Name, resource and pod template of everything that runs."""
    for resource in resources:
        if resource["kind"] in ("Deployment", "StatefulSet"):
            yield resource["metadata"]["name"], resource, resource["spec"]["template"]


# --- fields -----------------------------------------------------------------------------------------------------------


def mistakes(value: Any, kind: str, place: str) -> Iterator[str]:
    """What a value has that its type does not allow."""
    required, kind = kind.endswith("!"), kind.removesuffix("!")
    if kind == "any" or (value is None and not required):
        return
    if kind.startswith("[") and isinstance(value, list):
        for number, entry in enumerate(value):
            yield from mistakes(entry, kind[1:-1], f"{place}[{number}]")
    elif kind.startswith("{") and isinstance(value, dict):
        for key, entry in value.items():
            yield from mistakes(entry, kind[1:-1], f"{place}.{key}")
    elif kind in FIELDS and isinstance(value, dict):
        fields = FIELDS[kind]
        yield from (f"{place}.{name} is not a field of {kind}" for name in value if name not in fields)
        absent = (name for name, type_ in fields.items() if type_.endswith("!") and name not in value)
        yield from (f"{place}.{name} is missing" for name in absent)
        for name, entry in value.items():
            yield from mistakes(entry, fields.get(name, "any"), f"{place}.{name}")
    elif type(value).__name__ not in kind.split(" or "):
        yield f"{place} is {value!r}, not of type {kind}"


def test_every_field_is_one_of_kubernetes(overlay: Path) -> None:
    resources = rendered(overlay)
    assert len(resources) >= 10
    assert {resource["kind"] for resource in resources} <= set(FIELDS) | OPERATORS
    own = [resource for resource in resources if resource["kind"] in FIELDS]
    assert not [text for r in own for text in mistakes(r, r["kind"], f"{r['kind']} {r['metadata']['name']}")]


@pytest.mark.parametrize(
    ("spec", "mistake"),
    [
        ({"replica": 1}, "replica is not a field"),
        ({"replicas": "1"}, "not of type int"),
        ({"selector": None}, "not of type LabelSelector"),
        ({"template": {"spec": {"containers": [{"image": "x"}]}}}, "name is missing"),
    ],
)
def test_a_wrong_field_would_be_found(spec: Resource, mistake: str) -> None:
    right = {"selector": {}, "template": {"spec": {"containers": [{"name": "engine"}]}}}
    assert not list(mistakes({"metadata": {"name": "x"}, "spec": right}, "Deployment", "x"))
    wrong = {"metadata": {"name": "x"}, "spec": {**right, **spec}}
    assert any(mistake in text for text in mistakes(wrong, "Deployment", "x"))


def test_api_versions_are_those_of_the_kinds(overlay: Path) -> None:
    versions = {
        "Deployment": "apps/v1", "StatefulSet": "apps/v1", "NetworkPolicy": "networking.k8s.io/v1",
        "Role": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
        **dict.fromkeys(OPERATORS, "monitoring.coreos.com/v1"),
    }  # fmt: skip
    assert all(r["apiVersion"] == versions.get(r["kind"], "v1") for r in rendered(overlay))


# --- references -------------------------------------------------------------------------------------------------------


def test_what_pods_refer_to_is_there(overlay: Path) -> None:
    resources = rendered(overlay)
    config_maps, claims = named(resources, "ConfigMap"), named(resources, "PersistentVolumeClaim")
    accounts = named(resources, "ServiceAccount")
    for name, resource, template in pods(resources):
        spec = template["spec"]
        templates = resource["spec"].get("volumeClaimTemplates", ())
        volumes = {volume["name"] for volume in (*spec.get("volumes", ()), *(t["metadata"] for t in templates))}
        for volume in spec.get("volumes", ()):
            assert volume.get("configMap", {}).get("name", "ds-project") in config_maps, (name, volume)
            assert volume.get("persistentVolumeClaim", {}).get("claimName", "") in {"", *claims}, (name, volume)
        assert spec.get("serviceAccountName") in {None, *accounts}
        for container in spec["containers"]:
            mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert mounts <= volumes, name
            assert volumes <= mounts, f"{name}: a volume that nothing mounts"
            for mount in container.get("volumeMounts", ()):
                source = next((v for v in spec.get("volumes", ()) if v["name"] == mount["name"]), {})
                if "subPath" in mount:
                    assert mount["subPath"] in config_maps[source["configMap"]["name"]]["data"], (name, mount)
            for variable in container.get("env", ()):
                if "valueFrom" in variable:
                    key = variable["valueFrom"]["secretKeyRef"]
                    assert key["key"] in SECRETS[key["name"]], (name, key)
            assert all(source["secretRef"]["name"] in SECRETS for source in container.get("envFrom", ()))


def test_services_select_pods_and_their_ports(overlay: Path) -> None:
    resources = rendered(overlay)
    templates = [(name, template) for name, _, template in pods(resources)]
    for name, service in named(resources, "Service").items():
        selector = service["spec"]["selector"].items()
        hits = [template for _, template in templates if selector <= template["metadata"]["labels"].items()]
        assert len(hits) == 1, name
        ports = {port["name"] for container in hits[0]["spec"]["containers"] for port in container.get("ports", ())}
        assert {port["targetPort"] for port in service["spec"].get("ports", ())} <= ports, name
    for name, resource, template in pods(resources):
        labels = resource["spec"]["selector"]["matchLabels"].items()
        assert labels <= template["metadata"]["labels"].items(), name
        assert resource["kind"] == "Deployment" or resource["spec"]["serviceName"] in named(resources, "Service")
    for monitor in named(resources, "ServiceMonitor").values():
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [s for s in named(resources, "Service").values() if wanted <= s["metadata"]["labels"].items()]
        named_ports = {port["name"] for port in service["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= named_ports


def test_dagster_asks_the_code_server_that_is_there() -> None:
    resources = rendered(FOLDER / "base")
    files = named(resources, "ConfigMap")["ds-dagster-home"]["data"]
    (location,) = yaml.safe_load(files["workspace.yaml"])["load_from"]
    service = named(resources, "Service")[location["grpc_server"]["host"]]
    assert location["grpc_server"]["port"] in {port["port"] for port in service["spec"]["ports"]}
    storage = yaml.safe_load(files["dagster.yaml"])["storage"]["postgres"]["postgres_url"]
    dagster = [c for _, _, t in pods(resources) for c in t["spec"]["containers"] if "dagster" in " ".join(c["args"])]
    assert len(dagster) == 3
    assert all(storage["env"] in {variable["name"] for variable in container["env"]} for container in dagster)


# --- commands ---------------------------------------------------------------------------------------------------------


def commands(resources: list[Resource]) -> Iterator[list[str]]:
    """Every command of containers, probes and hooks, but those of servers that are not ours."""
    for name, _, template in pods(resources):
        for container in template["spec"]["containers"] if name != "ds-postgres" else ():
            yield container["args"]
            handlers = [container.get(f"{probe}Probe", {}) for probe in ("startup", "liveness", "readiness")]
            handlers.append(container.get("lifecycle", {}).get("preStop", {}))
            for handler in handlers:
                if "exec" in handler:
                    yield from run_by(handler["exec"]["command"])


def run_by(command: list[str]) -> list[list[str]]:
    """The command, or the commands whose output a line of a shell takes."""
    if command[:2] != ["sh", "-c"]:
        return [command]
    return [text.split() for text in re.findall(r"\$\((.*?) 2>&1\)", command[2])]


def parsed(group: click.Command, words: list[str]) -> click.Context:
    """The innermost context of a command line, by the program's own parser; nothing is run.

    Raises:
        click.ClickException: the program would refuse the line.
    """
    context = group.make_context(words[0], list(words[1:]))
    while isinstance(context.command, click.Group):
        left = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, left)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def programs() -> dict[str, click.Command]:
    from dagster._cli import create_dagster_cli
    from dagster._daemon.cli import create_dagster_daemon_cli
    from dagster_webserver.cli import create_dagster_webserver_cli

    return {
        "ds": cli,
        "dagster": create_dagster_cli(),
        "dagster-daemon": create_dagster_daemon_cli(),
        "dagster-webserver": create_dagster_webserver_cli(),
    }


@pytest.mark.sweep
def test_every_command_is_one_of_its_program(tmp_path: Path) -> None:
    known = programs()
    overlays = [*(FOLDER / "overlays" / name for name in OVERLAYS), with_pool(tmp_path)]
    lines = [line for folder in overlays for line in commands(rendered(folder))]
    unique = {" ".join(line): line for line in lines}
    assert {line[0] for line in lines} == set(known)
    assert {"ds engine run", "ds engine status --pool default", "ds engine stop"} <= set(unique)
    assert {f"ds engine {command} --pool heavy" for command in ("run", "status", "stop")} <= set(unique)
    for line in unique.values():
        here = [word.replace("/config/", f"{FOLDER}/base/config/") for word in line]
        assert parsed(known[line[0]], here).command.name


@pytest.mark.parametrize("line", ["ds engine begin", "ds metrics --listne 1"])
def test_a_wrong_command_would_be_found(line: str) -> None:
    with pytest.raises(click.ClickException):
        parsed(cli, line.split())


# --- what pods may do -------------------------------------------------------------------------------------------------


def test_pods_have_no_rights_they_do_not_use(overlay: Path) -> None:
    for name, _, template in pods(rendered(overlay)):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"], name
        assert not spec["automountServiceAccountToken"] or (overlay.name, name) == ("spark-on-kubernetes", "ds-engine")
        for container in spec["containers"]:
            assert not container["securityContext"]["allowPrivilegeEscalation"], name
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"], name
            assert container["resources"]["requests"]["memory"], name


def test_the_engine_is_one_and_has_time_to_end() -> None:
    from ds_dagster.runtime.engine import DRAIN_SECONDS, JVM_SECONDS

    engine = named(rendered(FOLDER / "base"), "StatefulSet")["ds-engine"]
    spec = engine["spec"]["template"]["spec"]
    assert engine["spec"]["replicas"] == 1
    assert spec["terminationGracePeriodSeconds"] >= DRAIN_SECONDS + JVM_SECONDS
    assert spec.get("restartPolicy", "Always") == "Always", "exit codes 75 and 76 ask for a start"
    daemon = named(rendered(FOLDER / "base"), "Deployment")["ds-daemon"]
    assert daemon["spec"]["strategy"] == {"type": "Recreate"}


def test_each_engine_is_probed_by_its_own_name(tmp_path: Path) -> None:
    """`ds engine status` without a name is content with the engine of any pool."""
    engines = {name: t for name, _, t in pods(rendered(with_pool(tmp_path))) if name.startswith("ds-engine")}
    assert set(engines) == {"ds-engine", "ds-engine-heavy"}
    for name, template in engines.items():
        pool = name.removeprefix("ds-engine").removeprefix("-")
        (container,) = template["spec"]["containers"]
        probes = [
            " ".join(container[f"{probe}Probe"]["exec"]["command"]) for probe in ("startup", "liveness", "readiness")
        ]
        assert all(f"ds engine status --pool {pool or 'default'}" in line for line in probes), name
        ends = " ".join(container["lifecycle"]["preStop"]["exec"]["command"])
        assert ends == " ".join(["ds engine stop", *(["--pool", pool] if pool else [])])


def test_the_engine_of_a_pool_is_as_the_projects_own(tmp_path: Path) -> None:
    """But for its name, size and the disk of its own; both have one state folder, as a query may move between them."""
    engines = named(rendered(with_pool(tmp_path)), "StatefulSet")
    own, pool = (json.loads(json.dumps(engines[name]["spec"]["template"])) for name in ("ds-engine", "ds-engine-heavy"))
    for template in (own, pool):
        (container,) = template["spec"]["containers"]
        assert {"name": "DS_STATE", "value": "/shared/state"} in container["env"]
        container.pop("resources")
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != "state"]
    without_pool = re.sub(r" --pool heavy|, \"--pool\", \"heavy\"|-heavy", "", json.dumps(in_any_order(pool)))
    without_name = re.sub(r" --pool default|, \"--pool\", \"default\"", "", json.dumps(in_any_order(own)))
    assert in_any_order(json.loads(without_pool)) == in_any_order(json.loads(without_name))


def test_no_secret_is_in_the_manifests(overlay: Path) -> None:
    text = yaml.safe_dump_all(rendered(overlay))
    assert not re.search(r"^kind: Secret$", text, re.MULTILINE)
    assert not re.search(r"(?i)(password|secret|(?<!account)token)['\"]?\s*[:=]\s*['\"]?\w+['\"]?$", text, re.MULTILINE)
    assert "://" not in re.sub(r"\w+://[\w.\-:/]+", "", text), "an address with a login"


# --- settings ---------------------------------------------------------------------------------------------------------


def settings_in(overlay: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of the example project as an overlay mounts them."""
    for name in ("sql", "definitions.py"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "ds.toml").write_text((overlay / "ds.toml").read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("DS_STATE", "DS_JOURNAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DS_PROFILE", str(overlay / "profile.toml"))
    return load_settings(folder)


def test_the_example_compiles_with_the_settings(overlay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_in(overlay, tmp_path, monkeypatch)
    assert settings.engine.launcher == "external"
    assert settings.journal == "${DS_JOURNAL_URL}"
    texts, refused = read_texts(settings)
    project = compile_texts(texts, settings)
    assert not refused
    assert not [problem.text() for problem in project.errors]
    stores = project.catalog.stores.values()
    assert not [store.name for store in stores if "localhost" in str(store.properties.get("uris"))]


def test_memory_of_the_pod_is_more_than_the_heap(
    overlay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(overlay, tmp_path, monkeypatch)
    spec = named(rendered(overlay), "StatefulSet")["ds-engine"]["spec"]["template"]["spec"]
    limit = spec["containers"][0]["resources"]["limits"]["memory"]
    assert int(limit.removesuffix("Gi")) >= int(settings.engine.memory.removesuffix("g")) + 2
    mounts = {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert any(settings.state.is_relative_to(mount) for mount in mounts if mount != "/tmp")


def test_versions_are_that_of_the_package(overlay: Path) -> None:
    images = {
        c["image"] for name, _, t in pods(rendered(overlay)) for c in t["spec"]["containers"] if "postgres" not in name
    }
    assert {image.rpartition(":")[2] for image in images} == {__version__}
    assert len(images) == 1


def test_alerts_are_those_of_the_page_about_monitoring() -> None:
    (shown,) = [block for block in blocks("yaml") if block.page == "docs/how-to/monitor.md" and "groups:" in block.text]
    rules = named(rendered(FOLDER / "overlays" / "prod"), "PrometheusRule")["ds-dagster"]
    assert rules["spec"] == yaml.safe_load(shown.text)


def test_secrets_are_on_the_page() -> None:
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    assert not [name for name, keys in SECRETS.items() for word in (name, *keys) if word not in page]


# --- the renderer -----------------------------------------------------------------------------------------------------


def without_hashes(resources: list[Resource]) -> dict[tuple[str, str], Resource]:
    text = re.sub(r"\b(ds-project|ds-dagster-home)-[0-9a-z]{10}\b", r"\1", yaml.safe_dump_all(resources))
    return {(r["kind"], r["metadata"]["name"]): in_any_order(r) for r in yaml.safe_load_all(text)}


def in_any_order(value: Any) -> Any:
    """Entries that Kubernetes merges by name have no order."""
    if isinstance(value, dict):
        return {key: in_any_order(entry) for key, entry in value.items()}
    if isinstance(value, list):
        entries = [in_any_order(entry) for entry in value]
        return sorted(entries, key=json.dumps) if entries and isinstance(entries[0], dict) else entries
    return value


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_renders_the_same(overlay: Path) -> None:
    done = subprocess.run(["kubectl", "kustomize", str(overlay)], capture_output=True, text=True, check=True)
    assert without_hashes(list(yaml.safe_load_all(done.stdout))) == without_hashes(rendered(overlay))


def test_a_patch_without_a_target_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "patch.yaml").write_text("kind: Service\nmetadata: {name: nothing}\n", encoding="utf-8")
    (tmp_path / "kustomization.yaml").write_text("patches: [{path: patch.yaml}]\n", encoding="utf-8")
    with pytest.raises(ValueError, match="nothing"):
        rendered(tmp_path)
    (tmp_path / "kustomization.yaml").write_text("namePrefix: x\n", encoding="utf-8")
    with pytest.raises(ValueError, match="namePrefix"):
        rendered(tmp_path)
