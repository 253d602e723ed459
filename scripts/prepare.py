"""What `make setup` does behind the installation: everything that first starts would fetch and build."""

from __future__ import annotations

import sys

from ds_dagster.errors import DsError
from ds_dagster.local.preparation import prepare


def main() -> int:
    """Do it all, one line of progress per step; 1 when something is missing."""
    try:
        prepare(_tell)
    except DsError as problem:
        _tell(str(problem))
        return 1
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
