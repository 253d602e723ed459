"""OpenSSL's messages if a server refuses a client's certificate, as Python's ssl and librdkafka show them."""

from __future__ import annotations

import re

REFUSED_CERTIFICATE = re.compile(
    r"alert (bad certificate|certificate|unknown ca|unsupported certificate|access denied)"
)
"""Alerts of RFC 8446 section 6.2 that a server sends about a client's certificate."""
