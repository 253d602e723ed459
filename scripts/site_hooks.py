"""What `make docs-site` does beside rendering docs/: a page per condition, links that leave the folder, anchors.

The pages of conditions are made when the site is built and are not committed: one file for each of them would be 700
files that nobody reads in the repository, where ``docs/reference/errors.md`` lists them all.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from ds_dagster.conditions import CONDITIONS
from ds_dagster.documentation.conditions import explained

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
ERRORS = "reference/errors.md"


def slug(text: str, separator: str = "-") -> str:
    """Anchor of a heading as GitHub makes it, so that a link works in the repository and on the site."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def plain(text: str) -> str:
    """A message or hint whose signs Markdown and HTML leave alone; what is in backticks stays code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<\\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def condition_page(name: str) -> str:
    """The page of one condition: the same facts as `ds errors NAME`."""
    found = explained(name)
    parts = [
        f"# {name}",
        plain(found.message[:1].upper() + found.message[1:]) + ".",
        f"{found.meaning}. Topic: {found.topic}. In a terminal: `ds errors {name}`.",
        f"## What to do\n\n{plain(found.hint) or 'Report it with the text of the message.'}",
    ]
    if found.example:
        parts.append(f"## A statement that raises it\n\n```\n{found.example}\n```")
    parts.append("`{…}` stands for a value of the case at hand. [All errors](../errors.md)")
    return "\n\n".join(parts) + "\n"


def outside(target: str, page: str) -> str | None:
    """Path from the root of the repository of a link that leaves docs/; None for every other link."""
    path, _, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return None
    whole = os.path.normpath(PurePosixPath("docs", page).parent / path)
    return None if whole.startswith("docs/") else whole + (f"#{anchor}" if anchor else "")


def on_files(files: Any, config: Any) -> Any:
    """Add a page per condition."""
    from mkdocs.structure.files import File

    for name in CONDITIONS:
        files.append(File.generated(config, f"reference/errors/{name}.md", content=condition_page(name)))
    return files


def on_config(config: Any) -> Any:
    """The repository's address is the one of pyproject.toml, so that it is written once."""
    text = Path(__file__).parent.parent.joinpath("pyproject.toml").read_text(encoding="utf-8")
    written = re.search(r'^repository = "(.*)"$', text, re.MULTILINE)
    config.repo_url = written[1] if written else ""
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Links to files outside of docs/ lead to the repository, where its address is known, else they are plain text."""
    path = page.file.src_uri

    def followed(match: re.Match[str]) -> str:
        whole = outside(match[3], path)
        if whole is None:
            return match[0]
        return f"[{match[2]}]({config.repo_url.rstrip('/')}/blob/main/{whole})" if config.repo_url else match[2]

    text = LINK.sub(followed, markdown)
    if path == ERRORS:
        text = re.sub(r"</a>`([A-Z_0-9]+)`", r"</a>[`\1`](errors/\1.md)", text)
    return text
