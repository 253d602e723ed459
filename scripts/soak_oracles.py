"""Random histories against their oracles, with another seed in every round, until the time is over or one differs.

Usage: python scripts/soak_oracles.py [--minutes 60] [--seed N]        minutes also by DS_SOAK_MINUTES

Every stateful operator gets inserts, updates, deletes, disorder, restarts and crashes; what the streaming queries hold
in the end must be what DuckDB or a plain model says. The first seed is random unless it is given; each round tells its
own, and ``DS_ORACLE_SEED=N pytest FILE`` repeats one.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
ORACLES = ("*oracle.py", "test_ordered_aggregates.py")
MOST = 1_000_000_000


def main() -> int:
    """Rounds; 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("DS_SOAK_MINUTES", "60")))
    parser.add_argument("--seed", type=int, help="of the first round")
    asked = parser.parse_args()
    files = sorted(str(path) for pattern in ORACLES for path in (ROOT / "tests").rglob(pattern))
    seed = asked.seed if asked.seed is not None else random.randrange(MOST)
    end = time.monotonic() + 60 * asked.minutes
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        say(f"round {rounds}: DS_ORACLE_SEED={seed}")
        environment = {**os.environ, "DS_ORACLE_SEED": str(seed)}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", *files]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            say(f"differs: DS_ORACLE_SEED={seed}")
            return 1
        seed = (seed + 1) % MOST
    say(f"{rounds} rounds, nothing differs")
    return 0


def say(line: str) -> None:
    """One line for a person."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
