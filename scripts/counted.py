"""Run a command and write down the processor time of everything it started.

Usage: python scripts/counted.py FILE COMMAND…        FILE: seconds, user and system; exits as the command does

Wall time says little on a machine that others use too; processor time does. Processes that outlive who started them (a
Spark driver, a server, an engine) become children of this one, where Linux allows it, and are counted when they end.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
ENDING_SECONDS = 20.0
"""How long processes may take to end behind the command; what still runs then is not counted."""
POLL_SECONDS = 0.1


def main(arguments: list[str]) -> int:
    """Run the command; its exit code, 128 and the signal's number if a signal ended it."""
    file, *command = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    started = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command gets it too, and ends
    code = None
    while code is None:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status) if pid == started.pid else None
    _reap_others()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(f"{used.ru_utime + used.ru_stime:.1f}\n", encoding="utf-8")
    return code if code >= 0 else 128 - code


def _reap_others() -> None:
    """Wait for processes that the command left behind."""
    end = time.monotonic() + ENDING_SECONDS
    with suppress(ChildProcessError):  # none is left
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
