"""What settings of projects say whose engines live for a test."""

from __future__ import annotations

from ds_dagster.testing.short_lived import JAVA_OPTIONS

SHORT_LIVED = (
    f'"spark.driver.extraJavaOptions" = "-Duser.timezone=UTC {JAVA_OPTIONS}"\n'
    '"spark.sql.streaming.pollingDelay" = "400ms"\n'
)
"""Lines of ``[spark]``: a detached engine takes nothing from the environment of who starts it. Its queries wait for
records most of the time, and each look for new ones asks the broker, too."""
