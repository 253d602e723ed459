"""What settings of projects say whose engines live for a test."""

from __future__ import annotations

from ds_dagster.testing.short_lived import JAVA_OPTIONS


def short_lived(polling: str = "400ms") -> str:
    """The lines of ``[spark]``; ``polling``: how long a query that found no records waits before it looks again."""
    return (
        f'"spark.driver.extraJavaOptions" = "-Duser.timezone=UTC {JAVA_OPTIONS}"\n'
        f'"spark.sql.streaming.pollingDelay" = "{polling}"\n'
    )


SHORT_LIVED = short_lived()
"""Lines of ``[spark]``: a detached engine takes nothing from the environment of who starts it. Its queries wait for
records most of the time, and each look for new ones asks the broker, too."""
