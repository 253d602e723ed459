"""Names of files and folders that are made from names of jobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_dagster.names import file_name

NAMES = st.text(st.sampled_from("aul0-. _2acCé€ÿĀ日𝄞"), max_size=5)


def test_names_of_existing_projects_stay() -> None:
    assert file_name("user clicks-2_ä.ÿ") == "user-20clicks-2d2_-e4-2e-ff"
    assert file_name("user.clicks", also=".") == "user.clicks"


@pytest.mark.parametrize(("one", "other"), [("€", " ac"), ("Ā", "\x100"), ("€", "u20ac-"), ("日1", "日-31")])
def test_two_names_give_two_files(one: str, other: str) -> None:
    assert file_name(one) != file_name(other)


@settings(max_examples=500, derandomize=True, deadline=None)
@given(NAMES, NAMES)
def test_files_have_one_name_each(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)
