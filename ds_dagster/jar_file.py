"""One jar as a file: written so that the same input gives the same bytes, and the key its manifest carries."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path


def jar_key(jar: Path) -> str:
    """The key in a built jar's manifest; empty when there is none."""
    with zipfile.ZipFile(jar) as archive:
        manifest = archive.read("META-INF/MANIFEST.MF").decode()
    match = re.search(r"^Ds-Source-Key: (\S+)", manifest, re.MULTILINE)
    return match.group(1) if match else ""


def pack(classes: Path, resources: Path, key: str, jar: Path) -> None:
    """Write a jar with sorted entries and a fixed time: the same input gives the same bytes.

    Args:
        classes: folder of compiled classes.
        resources: folder packed as it is; may not exist.
        key: of the sources, for the manifest; see :func:`jar_key`.
        jar: the file to write.
    """
    manifest = f"Manifest-Version: 1.0\r\nCreated-By: ds_dagster\r\nDs-Source-Key: {key}\r\n\r\n"
    roots = [folder for folder in (classes, resources) if folder.is_dir()]
    entries = {p.relative_to(root).as_posix(): p for root in roots for p in root.rglob("*") if p.is_file()}
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "META-INF/MANIFEST.MF", manifest.encode())
        for name in sorted(entries):
            _add(archive, name, entries[name].read_bytes())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)
