"""``ds explain --level spark``: Spark's plan without any server, and without secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_spark_level_compiles_offline(project: Path) -> None:
    secret = "never-to-be-seen"
    text = (project / "sql" / "all.sql").read_text()
    login = (
        "'kafka.sasl.hash_function' = PLAIN, 'kafka.sasl.username' = 'me', 'kafka.sasl.password' = '${KAFKA_PASSWORD}'"
    )
    changed = text.replace("'uris' = '127.0.0.1:1'", f"'uris' = '127.0.0.1:1', {login}")
    assert changed != text
    (project / "sql" / "all.sql").write_text(changed)
    command = [str(Path(sys.executable).with_name("ds")), "explain", "visits", "--level", "spark"]
    environment = os.environ | {"KAFKA_PASSWORD": secret}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Aggregate" in done.stdout
    assert "StreamingRelation" in done.stdout
    assert secret not in done.stdout + done.stderr
    assert not [line for line in done.stderr.splitlines() if not line.startswith("ds: ")], "nothing of the JVM's own"
