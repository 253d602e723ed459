"""Functions of texts in questions; the keys are those of ``functions/texts.py``."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, quote_plus, unquote_plus, urlsplit

from sqlglot import exp

from ds_dagster.functions.question import Computed, Meaning, Native, named, nullable, strict

CHARACTER_SETS = frozenset({"utf-8", "utf-16", "utf-16be", "utf-16le", "utf-32", "iso-8859-1", "us-ascii"})
SHA_BITS: Mapping[int, str] = MappingProxyType({224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"})
PARTS_OF_URL: Mapping[str, Callable[[Any], str | None]] = MappingProxyType(
    {
        "HOST": lambda url: url.hostname,
        "PATH": lambda url: url.path,
        "QUERY": lambda url: url.query or None,
        "REF": lambda url: url.fragment or None,
        "PROTOCOL": lambda url: url.scheme or None,
        "FILE": lambda url: url.path + (f"?{url.query}" if url.query else ""),
        "AUTHORITY": lambda url: url.netloc or None,
        "USERINFO": lambda url: url.netloc.rpartition("@")[0] or None,
    }
)


@lru_cache(maxsize=256)
def expression(pattern: str) -> re.Pattern[str]:
    r"""A Java regular expression as Python's: ``(?<name>…)``, ``\z``; possessive and Unicode classes as far as both
    have them.

    Raises:
        ValueError: Python has it not.
    """
    try:
        with_ends = re.sub(r"\\(.)", lambda found: "\\Z" if found[1] == "z" else found[0], pattern, flags=re.DOTALL)
        return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", with_ends))
    except re.error as problem:
        raise ValueError(f"'{pattern}' is not a regular expression that a question can use: {problem}") from problem


def _replaced(text: str, pattern: str, by: str) -> str:
    return expression(pattern).sub(_replacement(by), text)


@lru_cache(maxsize=256)
def _replacement(java: str) -> str:
    """``$1`` and ``${name}`` are groups; a backslash and any other ``$`` are plain characters."""

    def part(found: re.Match[str]) -> str:
        name, number = found.groups()
        return f"\\g<{name or number}>" if name or number else "\\\\"

    return re.sub(r"\$\{(\w+)\}|\$(\d)|\\", part, java)


def _extracted(text: str, pattern: str, group: int = 0) -> str | None:
    match = expression(pattern).search(text)
    if match is None:
        return None
    _check_group(match.re, group)
    return match.group(group) or ""


def _extracted_all(text: str, pattern: str, group: int = 1) -> list[str]:
    compiled = expression(pattern)
    _check_group(compiled, group)
    return [match.group(group) or "" for match in compiled.finditer(text)]


def _check_group(compiled: re.Pattern[str], group: int) -> None:
    if not 0 <= group <= compiled.groups:
        raise ValueError(f"'{compiled.pattern}' has {compiled.groups} groups, none is {group}")


def _first_place(text: str, pattern: str) -> int:
    match = expression(pattern).search(text)
    return 0 if match is None else match.start() + 1


def _first_match(text: str, pattern: str) -> str | None:
    match = expression(pattern).search(text)
    return None if match is None else match.group(0)


def _substring(text: str, start: int, length: int | None = None) -> str:
    """From a position counted from 1; negative from the end."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _overlaid(text: str, other: str, start: int, length: int = -1) -> str:
    width = len(other) if length < 0 else length
    return text[: max(start - 1, 0)] + other + text[start - 1 + width :]


def _padded(text: str, width: int, fill: str, *, left: bool) -> str | None:
    if width < 0 or not fill:
        return None
    if len(text) >= width:
        return text[:width]
    missing = (fill * width)[: width - len(text)]
    return missing + text if left else text + missing


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _split_index(text: str, separator: str, position: int) -> str | None:
    parts = text.split(separator) if separator else [text]
    return parts[position] if 0 <= position < len(parts) else None


def _located(part: str, text: str, start: int = 1) -> int:
    return text.find(part, start - 1) + 1 if start > 0 else 0


def _translated(text: str | None, old: str | None, new: str | None) -> str | None:
    """NULL for the characters means none of them."""
    if text is None:
        return None
    old, new = old or "", new or ""
    table: dict[int, str | None] = {}
    for position, letter in enumerate(old):
        table.setdefault(ord(letter), new[position] if position < len(new) else None)
    return text.translate(table)


def _joined(separator: str | None, *texts: str | None) -> str | None:
    return None if separator is None else separator.join(text for text in texts if text is not None)


def _initial_capitals(text: str) -> str:
    """Words of letters and digits, as Flink cuts them."""
    return re.sub(r"[^\W_]+", lambda word: word.group(0)[0].upper() + word.group(0)[1:].lower(), text)


def _url_part(text: str, part: str, key: str | None = None) -> str | None:
    try:
        url = urlsplit(text)
    except ValueError:
        return None
    if key is not None:
        return dict(reversed(parse_qsl(url.query, keep_blank_values=True))).get(key) if part == "QUERY" else None
    read = PARTS_OF_URL.get(part)
    return None if read is None or not url.scheme else read(url)


def _url_decoded(text: str) -> str | None:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return None
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return None


def _from_base64(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _character_set(name: str) -> str:
    if name.lower() not in CHARACTER_SETS:
        raise ValueError(f"'{name}' is not a valid character set; {', '.join(sorted(CHARACTER_SETS)).upper()} are")
    return name.lower()


def _encoded(text: str, name: str) -> bytes:
    known = _character_set(name)
    return b"\xfe\xff" + text.encode("utf-16-be") if known == "utf-16" else text.encode(known, "replace")


def _unhexed(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text) if " " not in text else None
    except ValueError:
        return None


def _hashed(name: str) -> Computed:
    return strict(lambda text: hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest())


def _sha2(text: str, bits: int) -> str | None:
    return hashlib.new(SHA_BITS[bits], text.encode()).hexdigest() if bits in SHA_BITS else None


def _all_of(test: Callable[[str], bool]) -> Computed:
    return nullable(lambda text: text is not None and bool(text) and test(text))


def _chosen(position: int | None, *texts: str | None) -> str | None:
    return texts[position - 1] if position is not None and 1 <= position <= len(texts) else None


def _printed(form: str | None, *values: Any) -> str | None:
    if form is None:
        return None
    try:
        shown: str = re.sub(r"%n", "\n", form).replace("%b", "%s") % values
    except TypeError as problem:
        raise ValueError(f"'{form}' does not fit its values: {problem}") from problem
    return shown


def _concatenation(call: Any) -> exp.Expression:
    """``||`` gives NULL when a part is NULL."""
    made = call.arguments[0]
    for part in call.arguments[1:]:
        made = exp.DPipe(this=made, expression=part)
    return exp.Paren(this=made)


TEXT_FUNCTIONS: Mapping[str, Meaning] = MappingProxyType(
    {
        "CONCAT": Native(_concatenation),
        "CONCAT_WS": nullable(_joined),
        "UPPER": strict(str.upper),
        "LOWER": strict(str.lower),
        "INITCAP": strict(_initial_capitals),
        "TRIM": strict(lambda text, removed=" ": text.strip(removed)),
        "LTRIM": strict(lambda text, removed=" ": text.lstrip(removed)),
        "RTRIM": strict(lambda text, removed=" ": text.rstrip(removed)),
        "LPAD": strict(lambda text, width, fill: _padded(text, width, fill, left=True)),
        "RPAD": strict(lambda text, width, fill: _padded(text, width, fill, left=False)),
        "LEFT": strict(lambda text, count: text[: max(count, 0)]),
        "RIGHT": strict(lambda text, count: text[max(len(text) - count, 0) :] if count > 0 else ""),
        "SUBSTRING": strict(_substring),
        "OVERLAY": strict(_overlaid),
        "CHAR_LENGTH": strict(len),
        "OCTET_LENGTH": strict(lambda text: len(text.encode())),
        "REPLACE": strict(lambda text, old, new: text.replace(old, new) if old else text),
        "TRANSLATE": nullable(_translated),
        "REPEAT": strict(lambda text, count: text * max(count, 0)),
        "REVERSE": strict(lambda text: text[::-1]),
        "POSITION": strict(_located),
        "LOCATE": strict(_located),
        "INSTR": strict(lambda text, part: _located(part, text)),
        "STARTSWITH": strict(str.startswith),
        "ENDSWITH": strict(str.endswith),
        "SPLIT": strict(_split),
        "SPLIT_INDEX": strict(_split_index),
        "REGEXP": strict(lambda text, pattern: expression(pattern).search(text) is not None),
        "REGEXP_EXTRACT": strict(_extracted),
        "REGEXP_EXTRACT_ALL": strict(_extracted_all),
        "REGEXP_REPLACE": strict(_replaced),
        "REGEXP_COUNT": strict(lambda text, pattern: sum(1 for _ in expression(pattern).finditer(text))),
        "REGEXP_INSTR": strict(_first_place),
        "REGEXP_SUBSTR": strict(_first_match),
        "PARSE_URL": strict(_url_part),
        "URL_ENCODE": strict(lambda text: quote_plus(text, safe="*-._").replace("~", "%7E")),
        "URL_DECODE": strict(_url_decoded),
        "TO_BASE64": strict(lambda text: base64.b64encode(text.encode()).decode()),
        "FROM_BASE64": strict(_from_base64),
        "ENCODE": strict(_encoded),
        "DECODE": strict(lambda value, name: bytes(value).decode(_character_set(name), "replace")),
        "HEX": strict(lambda text: text.encode().hex().upper()),
        "UNHEX": strict(_unhexed),
        "ASCII": strict(lambda text: ord(text[0]) if text else 0),
        "CHR": strict(lambda number: "" if number < 0 else chr(number % 256)),
        "ELT": nullable(_chosen),
        "PRINTF": nullable(_printed),
        "IS_ALPHA": _all_of(str.isalpha),
        "IS_DIGIT": _all_of(str.isdecimal),
        "IS_DECIMAL": _all_of(
            lambda text: re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is not None
        ),
        "UUID": Native(lambda _: exp.Cast(this=named("uuid"), to=exp.DataType.build("VARCHAR"))),
        "MD5": _hashed("md5"),
        "SHA1": _hashed("sha1"),
        "SHA224": _hashed("sha224"),
        "SHA256": _hashed("sha256"),
        "SHA384": _hashed("sha384"),
        "SHA512": _hashed("sha512"),
        "SHA2": strict(_sha2),
        "CRC32": strict(lambda text: zlib.crc32(text.encode())),
    }
)
"""Function → meaning."""
