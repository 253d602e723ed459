"""Options of the file source: flat strings in, one record out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ds_dagster.files.address import FilesAddress
from ds_dagster.files.rows import FileFormat, columns_of_json


@dataclass(frozen=True, slots=True)
class FilesOptions:
    """Checked options of one source.

    Attributes:
        address: of the store.
        folder: of the entity below it.
        format: of its files.
        starting_position: ``earliest`` or ``latest``; of a first start only.
        files_per_batch: most files of one batch.
        discovery_seconds: pause between looks for new files.
    """

    address: FilesAddress
    folder: str
    format: FileFormat
    starting_position: str = "earliest"
    files_per_batch: int = 1000
    discovery_seconds: float = 1.0

    @property
    def entity(self) -> str:
        """Shown in errors."""
        return f"{self.address.store}.{self.folder}"

    @property
    def place(self) -> str:
        """Folder of the entity."""
        return self.address.place(self.folder)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> FilesOptions:
        """Read Spark's options; what a store's specification wrote is all there.

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
        )
