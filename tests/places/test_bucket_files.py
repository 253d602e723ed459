"""Files of a checkpoint in a bucket: of several writers of a new file one wins, and a query continues from such a
checkpoint. In a JVM of its own, whose class path has the S3 client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.lake import s3_bucket
from tests.places import bucket_files


@pytest.mark.slow
def test_one_writer_of_a_new_file_wins(tmp_path: Path) -> None:
    with s3_bucket("checkpoints") as options:
        root = Path(__file__).parents[2]
        line = [sys.executable, bucket_files.__file__, options["endpoint_url"], str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer == {"won": [1] * bucket_files.FILES, "totals": [10, 20], "renamed": True}
