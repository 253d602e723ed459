"""Java options of drivers that live for tests: they are over before an optimizing compiler pays."""

from __future__ import annotations

JAVA_OPTIONS = " ".join(
    (
        # half the processor time; without the second compiler Java also keeps room for a fifth of the code only, and
        # throws away what it compiled as soon as that is full
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=240m",
        "-XX:+UseSerialGC",
        # the classes of a driver outgrow the first limit several times over, each time with a full collection
        "-XX:MetaspaceSize=256m",
    )
)
SESSION_HEAP = "2g"
SESSION_OPTIONS = f"-Duser.timezone=UTC {JAVA_OPTIONS} -Xmn768m"
"""The same for a session with this heap in which hundreds of small queries run. Nearly all that their batches make is
garbage: with the third of a smaller heap that Java gives it, to collect it takes a tenth of the processor time."""
