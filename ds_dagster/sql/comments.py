"""The comment right above a statement: description and ``@`` tags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ds_dagster.names import nearest
from ds_dagster.sql.annotations import wrong_tags
from ds_dagster.sql.source import SourceText
from ds_dagster.sql.statements import Comment

KNOWN_TAGS = ("owner", "group", "freshness", "kinds", "max_lag", "automation", "check", "partitions", "renamed_from")
_COMMENT = re.compile(r"--([^\n]*)|/\*(.*?)\*/", re.DOTALL)
_TAG = re.compile(r"@([A-Za-z][\w-]*)\s*:?(?:\s+(.*))?$")
_RULER = re.compile(r"[-=*#_~\s─━═]*$")


@dataclass(frozen=True, slots=True)
class Remark:
    """A warning about a tag whose name looks misspelt or whose value is not valid: offset, condition, parameters."""

    offset: int
    condition: str
    params: Mapping[str, str]


@dataclass(slots=True)
class _Collected:
    lines: list[str] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    tags: list[tuple[str, str]] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)


def comment_above(source: SourceText, gap: int, start: int) -> tuple[Comment, tuple[Remark, ...]]:
    """The comment directly above a statement, and warnings about its tags.

    Only text after the last empty line counts. A comment on the line of the previous semicolon belongs to the previous
    statement.

    Args:
        source: text of the file.
        gap: offset after the previous semicolon; 0 for the first statement.
        start: offset of the statement.
    """
    if not source.text[gap:start].strip():
        return Comment(), ()
    block: list[re.Match[str]] = []
    below = start
    for match in reversed(list(_COMMENT.finditer(source.text, gap, start))):
        trailing = gap > 0 and "\n" not in source.text[gap : match.start()]
        if source.text.count("\n", match.end(), below) > 1 or trailing:
            break
        block.insert(0, match)
        below = match.start()
    return _read(block)


def _read(block: list[re.Match[str]]) -> tuple[Comment, tuple[Remark, ...]]:
    collected = _Collected()
    for match in block:
        for line in _lines(match):
            _add(line, match.start(), collected)
    comment = Comment(
        description="\n".join(collected.lines).strip(),
        owners=tuple(collected.owners),
        group=collected.values.get("group", ""),
        freshness=collected.values.get("freshness", ""),
        tags=tuple(collected.tags),
    )
    wrong = (Remark(collected.offsets[remark.tag], remark.condition, remark.params) for remark in wrong_tags(comment))
    return comment, (*collected.remarks, *wrong)


def _lines(match: re.Match[str]) -> list[str]:
    if match[1] is not None:
        return [match[1].removeprefix(" ").rstrip()]
    return [line.strip().removeprefix("*").removeprefix(" ") for line in match[2].strip().splitlines()]


def _add(line: str, offset: int, collected: _Collected) -> None:
    tag = _TAG.match(line.strip())
    if tag is None:
        if not line.strip() or not _RULER.match(line):
            collected.lines.append(line)
        return
    name, value = tag[1].lower(), (tag[2] or "").strip()
    collected.offsets[name] = offset
    if name == "owner":
        collected.owners.extend(part for part in re.split(r"[,\s]+", value) if part)
    elif name in ("group", "freshness"):
        collected.values[name] = value
    else:
        close = () if name in KNOWN_TAGS else nearest(name, KNOWN_TAGS, 1)
        if close:
            collected.remarks.append(Remark(offset, "COMMENT_TAG_UNKNOWN", {"tag": name, "nearest": close[0]}))
        collected.tags.append((name, value))
