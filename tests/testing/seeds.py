"""Random histories: their seed, the same in every run of the tests and another one in each round of ``make soak``; what
happens between their parts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

VARIABLE = "DS_ORACLE_SEED"
BETWEEN: Sequence[Mapping[str, Any]] = ({"crash": {"at": "before_commit"}}, {"crash": {"at": "after_commit"}})
"""Steps of a case after the first and after the second part. A batch dies before its commit and is replayed; then every
query stops after a commit and starts again, all that the step ``restart`` does."""
THIRDS = len(BETWEEN) + 1
"""Parts of a history with one of these between each two: a batch, or several, of each of its topics."""


def seed(usual: int) -> int:
    """``usual``, or what the environment says: a failing soak names its seed."""
    return int(os.environ.get(VARIABLE) or usual)


def is_usual() -> bool:
    """Whether the histories are those somebody looked at: of others some questions may find nothing."""
    return not os.environ.get(VARIABLE)
