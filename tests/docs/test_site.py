"""What the site adds to the pages of docs/: a page per condition, links out of the folder, anchors, navigation."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest
import yaml

from ds_dagster.conditions import CONDITIONS
from scripts.site_hooks import condition_page, on_config, on_page_markdown, outside, plain, slug
from tests.docs.pages import ROOT, pages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("target", "page", "expected"),
    [
        ("../../sql/stores.sql", "tutorial/clickstream.md", "sql/stores.sql"),
        ("../CONTRIBUTING.md#tests", "architecture.md", "CONTRIBUTING.md#tests"),
        ("../reference/dialect.md", "tutorial/clickstream.md", None),
        ("#here", "faq.md", None),
        ("https://example.com/x", "faq.md", None),
    ],
)
def test_links_that_leave_the_folder_are_known(target: str, page: str, expected: str | None) -> None:
    assert outside(target, page) == expected


@pytest.mark.parametrize(
    ("repository", "expected"),
    [("", "See files."), ("https://g.example/p", "See [files](https://g.example/p/blob/main/sql).")],
)
def test_a_link_to_the_repository_is_followed_where_there_is_one(repository: str, expected: str) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="faq.md"))
    config = SimpleNamespace(repo_url=repository)
    assert on_page_markdown("See [files](../sql).", page, config) == expected


def test_the_list_of_errors_leads_to_a_page_for_each() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="reference/errors.md"))
    text = on_page_markdown((ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8"), page, None)
    assert set(re.findall(r"\]\(errors/([A-Z0-9_]+)\.md\)", text)) == set(CONDITIONS)
    assert all(condition_page(name).startswith(f"# {name}\n") for name in CONDITIONS)


def test_signs_of_a_message_survive_markdown() -> None:
    assert plain("write a <name> or *, see `x_*` and b_c") == r"write a \<name> or \*, see `x_*` and b\_c"


def test_the_repository_is_written_once() -> None:
    assert (
        on_config(SimpleNamespace(repo_url=None)).repo_url
        == PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    )


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("CREATE TABLE … AS", "create-table--as"), ("Who asks", "who-asks"), ("`ds sql`: at once", "ds-sql-at-once")],
)
def test_anchors_are_those_of_the_repository(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


def test_the_navigation_names_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    plain = re.sub(r"!!python/name:\S+|!ENV", "", text)
    named = re.findall(r"[\w-]+(?:/[\w-]+)*\.md", str(yaml.safe_load(plain)["nav"]))
    assert sorted(named) == sorted(path.removeprefix("docs/") for path in pages() if path.startswith("docs/"))
