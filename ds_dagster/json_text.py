"""JSON as it is printed and written: all characters unescaped except lone surrogates, which UTF-8 cannot hold."""

from __future__ import annotations

import json
import re
from typing import Any

_HALVES = re.compile("[\ud800-\udfff]")


def to_json(value: object, **options: Any) -> str:
    """A value as JSON.

    Args:
        value: to write.
        options: of :func:`json.dumps`.
    """
    text = json.dumps(value, ensure_ascii=False, **options)
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
