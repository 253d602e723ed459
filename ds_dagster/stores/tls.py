"""What OpenSSL says when a server refuses a client's certificate; Python's ssl and librdkafka pass it on."""

from __future__ import annotations

import re

REFUSED_CERTIFICATE = re.compile(
    r"alert (bad certificate|certificate|unknown ca|unsupported certificate|access denied)"
)
"""Alerts of RFC 8446 section 6.2 that a server sends about a client's certificate."""
