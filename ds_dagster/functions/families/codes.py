"""Functions of URLs, bytes, character sets and hashes, Flink SQL's names and meanings."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote_plus, unquote_plus, urlsplit

from sqlglot import exp

from ds_dagster.datatypes import BIGINT, INTEGER, VARBINARY, VARCHAR
from ds_dagster.functions.constants import CHARSETS, Constant
from ds_dagster.functions.function import RowFunction, scalar
from ds_dagster.functions.question import Computed, Native, named, strict
from ds_dagster.functions.spark import Functions, SparkMeaning

if TYPE_CHECKING:
    from pyspark.sql import Column

# --- Spark ------------------------------------------------------------------------------------------------------------


def _spark_sha(bits: int) -> SparkMeaning:
    return lambda f, text: f.sha2(text.cast("binary"), bits)


def _spark_sha_of_bits(f: Functions, text: Column, bits: Column) -> Any:
    choices = f.lit(None).cast("string")
    for number in SHA_BITS:
        choices = f.when(bits == number, f.sha2(text.cast("binary"), number)).otherwise(choices)
    return choices


# --- questions --------------------------------------------------------------------------------------------------------

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


def _spark_from_base64(f: Functions, text: Any) -> Any:
    """NULL for a text with whitespace, which Spark would ignore in some places."""
    bare = f.when(~text.rlike(r"\s"), text)
    return f.make_valid_utf8(f.try_to_binary(bare, f.lit("base64")).cast("string"))


def _from_base64(text: str) -> str | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _character_set(name: str) -> str:
    if name.upper() not in CHARSETS:
        raise ValueError(f"'{name}' is not a valid character set; use one of {', '.join(CHARSETS)}")
    return name.lower()


def _encoded(text: str, name: str) -> bytes:
    encoding = _character_set(name)
    return b"\xfe\xff" + text.encode("utf-16-be") if encoding == "utf-16" else text.encode(encoding, "replace")


def _decoded(value: bytes, name: str) -> str:
    return bytes(value).decode(_character_set(name), "replace")


def _unhexed(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text) if " " not in text else None
    except ValueError:
        return None


def _hashed(name: str) -> Computed:
    return strict(lambda text: hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest())


def _sha2(text: str, bits: int) -> str | None:
    return hashlib.new(SHA_BITS[bits], text.encode()).hexdigest() if bits in SHA_BITS else None


# --- records ----------------------------------------------------------------------------------------------------------

CODE_FUNCTIONS: tuple[RowFunction, ...] = (
    scalar(
        "PARSE_URL",
        "text text text?",
        VARCHAR,
        "part of a URL: HOST, PATH, QUERY (a parameter by the third argument), REF, PROTOCOL, FILE, AUTHORITY, "
        "USERINFO; NULL if it is absent or the text is not a valid URL",
        ("PARSE_URL('https://host/p?k=v', 'QUERY', 'k')", "'v'"),
        ("PARSE_URL('https://host/p?k=v', 'HOST')", "'host'"),
        nulls="always",
        spark="try_parse_url",
        question=strict(_url_part),
    ),
    scalar(
        "URL_ENCODE",
        "text",
        VARCHAR,
        "the text in form encoding (UTF-8)",
        ("URL_ENCODE('a b&c')", "'a+b%26c'"),
        spark="url_encode",
        question=strict(lambda text: quote_plus(text, safe="*-._").replace("~", "%7E")),
    ),
    scalar(
        "URL_DECODE",
        "text",
        VARCHAR,
        "the opposite of URL_ENCODE; NULL if the text is not in form encoding",
        ("URL_DECODE('a+b%26c')", "'a b&c'"),
        nulls="always",
        spark="try_url_decode",
        question=strict(_url_decoded),
    ),
    scalar(
        "TO_BASE64",
        "text",
        VARCHAR,
        "Base64 of the UTF-8 bytes",
        ("TO_BASE64('hi')", "'aGk='"),
        spark=lambda f, text: f.base64(text.cast("binary")),
        question=strict(lambda text: base64.b64encode(text.encode()).decode()),
    ),
    scalar(
        "FROM_BASE64",
        "text",
        VARCHAR,
        "the opposite of TO_BASE64; NULL if the text is not valid Base64",
        ("FROM_BASE64('aGk=')", "'hi'"),
        nulls="always",
        spark=_spark_from_base64,
        question=strict(_from_base64),
    ),
    scalar(
        "ENCODE",
        "text text",
        VARBINARY,
        "bytes in a character set (UTF-8, UTF-16, ISO-8859-1, US-ASCII …)",
        ("DECODE(ENCODE('grüß', 'ISO-8859-1'), 'ISO-8859-1')", "'grüß'"),
        spark="encode",
        question=strict(_encoded),
        constants=(Constant("charset", 1),),
    ),
    scalar(
        "DECODE",
        "bytes text",
        VARCHAR,
        "text of bytes in a character set",
        ("DECODE(UNHEX('6869'), 'UTF-8')", "'hi'"),
        spark="decode",
        question=strict(_decoded),
        constants=(Constant("charset", 1),),
    ),
    scalar(
        "HEX",
        "text",
        VARCHAR,
        "UTF-8 bytes in hexadecimal digits",
        ("HEX('hi')", "'6869'"),
        spark="hex",
        question=strict(lambda text: text.encode().hex().upper()),
    ),
    scalar(
        "UNHEX",
        "text",
        VARBINARY,
        "bytes of hexadecimal digits; NULL for a text with other characters",
        ("DECODE(UNHEX('6869'), 'UTF-8')", "'hi'"),
        ("UNHEX('6g')", "NULL"),
        nulls="always",
        spark=lambda f, text: f.try_to_binary(text, f.lit("hex")),
        question=strict(_unhexed),
    ),
    scalar(
        "ASCII",
        "text",
        INTEGER,
        "number of the first character; 0 for an empty text",
        ("ASCII('abc')", "97"),
        spark="ascii",
        question=strict(lambda text: ord(text[0]) if text else 0),
    ),
    scalar(
        "CHR",
        "integer",
        VARCHAR,
        "character of a number modulo 256",
        ("CHR(97)", "'a'"),
        spark="chr",
        question=strict(lambda number: "" if number < 0 else chr(number % 256)),
    ),
    scalar(
        "UUID",
        "",
        VARCHAR,
        "a new random identifier per row",
        ("CHAR_LENGTH(UUID())", "36"),
        nulls="never",
        deterministic=False,
        spark="uuid",
        question=Native(lambda _: exp.Cast(this=named("uuid"), to=exp.DataType.build("VARCHAR"))),
    ),
    scalar(
        "MD5",
        "text",
        VARCHAR,
        "MD5 of the UTF-8 bytes, 32 hexadecimal digits in lower case",
        ("LEFT(MD5('a'), 8)", "'0cc175b9'"),
        spark=lambda f, text: f.md5(text.cast("binary")),
        question=_hashed("md5"),
    ),
    scalar(
        "SHA1",
        "text",
        VARCHAR,
        "SHA-1 of the UTF-8 bytes, 40 hexadecimal digits in lower case",
        ("LEFT(SHA1('a'), 8)", "'86f7e437'"),
        spark=lambda f, text: f.sha1(text.cast("binary")),
        question=_hashed("sha1"),
    ),
    scalar(
        "SHA224",
        "text",
        VARCHAR,
        "SHA-224 of the UTF-8 bytes, in hexadecimal digits",
        ("LEFT(SHA224('a'), 8)", "'abd37534'"),
        spark=_spark_sha(224),
        question=_hashed("sha224"),
    ),
    scalar(
        "SHA256",
        "text",
        VARCHAR,
        "SHA-256 of the UTF-8 bytes, in hexadecimal digits",
        ("LEFT(SHA256('a'), 8)", "'ca978112'"),
        spark=_spark_sha(256),
        question=_hashed("sha256"),
    ),
    scalar(
        "SHA384",
        "text",
        VARCHAR,
        "SHA-384 of the UTF-8 bytes, in hexadecimal digits",
        ("LEFT(SHA384('a'), 8)", "'54a59b9f'"),
        spark=_spark_sha(384),
        question=_hashed("sha384"),
    ),
    scalar(
        "SHA512",
        "text",
        VARCHAR,
        "SHA-512 of the UTF-8 bytes, in hexadecimal digits",
        ("LEFT(SHA512('a'), 8)", "'1f40fc92'"),
        spark=_spark_sha(512),
        question=_hashed("sha512"),
    ),
    scalar(
        "SHA2",
        "text integer",
        VARCHAR,
        "SHA-224, -256, -384 or -512 by the number of bits; NULL for another number",
        ("SHA2('a', 256) = SHA256('a')", "TRUE"),
        nulls="always",
        spark=_spark_sha_of_bits,
        question=strict(_sha2),
    ),
    scalar(
        "CRC32",
        "text",
        BIGINT,
        "CRC-32 of the UTF-8 bytes",
        ("CRC32('a')", "3904355907"),
        spark=lambda f, text: f.crc32(text.cast("binary")),
        question=strict(lambda text: zlib.crc32(text.encode())),
    ),
)
