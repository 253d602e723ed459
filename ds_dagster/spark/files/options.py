"""Options of the file source: flat strings in, one record out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ds_dagster.files.address import FileFacts, FilesAddress
from ds_dagster.files.position import files_of_json
from ds_dagster.files.rows import FileFormat, columns_of_json


@dataclass(frozen=True, slots=True)
class FilesOptions:
    """Checked options of one source.

    Attributes:
        address: address of the store.
        folder: folder of the entity below the address.
        format: format of its files.
        starting_position: ``earliest`` or ``latest``; only for a first start.
        files_per_batch: most files of one batch.
        discovery_seconds: pause between two listings of the folder.
        files: of a reader that is no stream: the files to read.
        rows_per_second: of such a reader: most rows per second; None: no bound.
    """

    address: FilesAddress
    folder: str
    format: FileFormat
    starting_position: str = "earliest"
    files_per_batch: int = 1000
    discovery_seconds: float = 1.0
    files: tuple[FileFacts, ...] = ()
    rows_per_second: int | None = None

    @property
    def entity(self) -> str:
        """``store.folder``, shown in errors."""
        return f"{self.address.store}.{self.folder}"

    @property
    def place(self) -> str:
        """Full path of the entity's folder."""
        return self.address.place(self.folder)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> FilesOptions:
        """Parse Spark's options, which come from the store's read spec.

        Raises:
            UserError: PROPERTY_INVALID.
        """
        lowered = {key.lower(): value for key, value in options.items()}
        return cls(
            address=FilesAddress.of(lowered),
            folder=lowered["folder"],
            format=FileFormat(
                name=lowered["format"],
                columns=columns_of_json(lowered["columns"]),
                header=lowered.get("header", "true") == "true",
                delimiter=lowered.get("delimiter", ","),
            ),
            starting_position=lowered.get("starting.position", "earliest"),
            files_per_batch=int(lowered.get("files.per.batch", 1000)),
            discovery_seconds=int(lowered.get("discovery.millis", 1000)) / 1000,
            files=files_of_json(lowered.get("files", "[]")),
            rows_per_second=int(lowered["rows.per.second"]) if "rows.per.second" in lowered else None,
        )
