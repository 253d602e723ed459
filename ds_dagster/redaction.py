"""Masks secrets in text for logs and details of errors: passwords in URLs, ``name=value`` with names such as
``password``, and the exact secrets that were registered after resolving them."""

from __future__ import annotations

import re
import threading

MASK = "********"
MIN_LENGTH = 4
"""Shorter texts are not looked for: masking them would make every log unreadable."""
_NAMES = r"(?:pass(?:word|wd)?|secret(?:_access)?(?:_key)?|token|api[_-]?key|private[_-]?key|credential|signature)"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?P<head>[a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@]*:)[^\s@/]+(?=@)"), rf"\g<head>{MASK}"),
    (
        re.compile(
            rf"(?P<head>[\w.-]*{_NAMES}[\w.-]*[\"']?\s*[=:]\s*)(?P<quote>[\"'])(?:\\.|(?!(?P=quote)).)*(?P=quote)", re.I
        ),
        rf"\g<head>\g<quote>{MASK}\g<quote>",
    ),
    (re.compile(rf"(?P<head>[\w.-]*{_NAMES}[\w.-]*\s*[=:]\s*)[^\s\"',;)&\]}}]+", re.I), rf"\g<head>{MASK}"),
    (re.compile(r"(?P<head>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\g<head>{MASK}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
)


class Redactor:
    """Masks secrets in text. One per process that resolves secrets; safe from several threads."""

    def __init__(self) -> None:
        self._known: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def remember(self, secret: str) -> None:
        """Mask this text from now on, wherever it is."""
        if len(secret) < MIN_LENGTH or secret in self._known:
            return
        with self._lock:
            self._known = tuple(sorted({*self._known, secret}, key=len, reverse=True))

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._known:
            text = text.replace(secret, MASK)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def __repr__(self) -> str:
        return f"Redactor({len(self._known)} secrets)"


def redact(text: str) -> str:
    """The text with everything masked that looks like a secret; registered secrets are not known here."""
    return Redactor()(text)
