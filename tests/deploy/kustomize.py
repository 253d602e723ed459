"""Renders a folder of Kustomize as far as deploy/kubernetes uses it: resources, components, generated ConfigMaps,
labels, images, a namespace and strategic patches. Generated names have no hash."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]

KNOWN = frozenset({
    "apiVersion", "kind", "namespace", "resources", "components", "configMapGenerator", "images", "patches", "labels",
})  # fmt: skip
MERGED_BY = {
    "containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath", "ports": "containerPort",
}  # fmt: skip
"""List → the field by which Kubernetes merges its entries; other lists are replaced."""
CLUSTER_WIDE = ("Namespace",)


def rendered(folder: Path) -> list[Resource]:
    """The resources of a folder.

    Raises:
        ValueError: its kustomization has a field that this renderer does not know, or a patch has no target.
    """
    return _rendered(folder, [])


def _rendered(folder: Path, below: list[Resource]) -> list[Resource]:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    if unknown := set(kustomization) - KNOWN:
        raise ValueError(f"{folder}: {unknown}")
    resources = below
    for name in kustomization.get("resources", ()):
        path = folder / name
        resources = [*resources, *(_rendered(path, []) if path.is_dir() else documents(path))]
    for name in kustomization.get("components", ()):
        resources = _rendered(folder / name, resources)
    resources = [*resources, *(_config_map(folder, entry) for entry in kustomization.get("configMapGenerator", ()))]
    for entry in kustomization.get("patches", ()):
        for patch in documents(folder / entry["path"]):
            resources = _patched(resources, patch)
    for entry in kustomization.get("images", ()):
        resources = [_with_image(resource, entry) for resource in resources]
    for entry in kustomization.get("labels", ()):
        for resource in resources:
            resource["metadata"].setdefault("labels", {}).update(entry["pairs"])
    if "namespace" in kustomization:
        for resource in resources:
            if resource["kind"] not in CLUSTER_WIDE:
                resource["metadata"]["namespace"] = kustomization["namespace"]
    return resources


def documents(path: Path) -> list[Resource]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def _config_map(folder: Path, entry: dict[str, Any]) -> Resource:
    data = {Path(name).name: (folder / name).read_text(encoding="utf-8") for name in entry["files"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": entry["name"]}, "data": data}


def _patched(resources: list[Resource], patch: Resource) -> list[Resource]:
    target = (patch["kind"], patch["metadata"]["name"])
    if target not in [(resource["kind"], resource["metadata"]["name"]) for resource in resources]:
        raise ValueError(f"a patch of {target}, which is not there")
    return [
        merged(resource, patch) if (resource["kind"], resource["metadata"]["name"]) == target else resource
        for resource in resources
    ]


def merged(old: Any, new: Any, name: str = "") -> Any:
    """A strategic merge: mappings field by field, some lists entry by entry, all else replaced."""
    if isinstance(old, dict) and isinstance(new, dict):
        changed = {key: merged(old[key], value, key) if key in old else deepcopy(value) for key, value in new.items()}
        return {**old, **changed}
    if isinstance(old, list) and isinstance(new, list) and name in MERGED_BY:
        key = MERGED_BY[name]
        changes = {entry[key]: entry for entry in new}
        kept = [merged(entry, changes.pop(entry[key])) if entry[key] in changes else entry for entry in old]
        return [*kept, *map(deepcopy, changes.values())]
    return deepcopy(new)


def _with_image(value: Any, entry: dict[str, str]) -> Any:
    if isinstance(value, dict):
        changed = {key: _with_image(inner, entry) for key, inner in value.items()}
        if changed.get("image") == entry["name"]:
            changed["image"] = f"{entry.get('newName', entry['name'])}:{entry['newTag']}"
        return changed
    return [_with_image(inner, entry) for inner in value] if isinstance(value, list) else value
