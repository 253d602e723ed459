"""Names of files and folders that are made from names of jobs."""

from __future__ import annotations

from itertools import product

import pytest

from ds_dagster.names import file_name

LETTERS = sorted(set("aul0-. _2cCé€ÿĀ日𝄞"))


def test_names_of_existing_projects_stay() -> None:
    assert file_name("user clicks-2_ä.ÿ") == "user-20clicks-2d2_-e4-2e-ff"
    assert file_name("user.clicks", also=".") == "user.clicks"


@pytest.mark.parametrize(("one", "other"), [("€", " ac"), ("Ā", "\x100"), ("€", "u20ac-"), ("日1", "日-31")])
def test_two_names_give_two_files(one: str, other: str) -> None:
    assert file_name(one) != file_name(other)


def test_files_have_one_name_each() -> None:
    """No two of all names of up to three letters."""
    names = ["".join(letters) for count in range(4) for letters in product(LETTERS, repeat=count)]
    assert len({file_name(name) for name in names}) == len(names)
