"""Failures cross processes as name and parameters: every condition, with parameters that hold anything."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_dagster.conditions import CONDITIONS
from ds_dagster.envelope import from_wire, to_wire
from ds_dagster.errors import DsError, error

TEXTS = st.text(st.sampled_from("ab[]{}()\"'\\\n\r\t:,% ä漢\u2028") | st.characters(codec="utf-8"), max_size=20)
VALUES = TEXTS | st.integers() | st.booleans() | st.none() | st.lists(TEXTS, max_size=3)
AROUND = st.sampled_from(
    ["", "[STREAM_FAILED] it ended: ", "[ds:", "[ds:x] {", "Job aborted due to\n\t{", "[ds:NO_SUCH] {} "]
)


def parameters_of(condition: str) -> list[str]:
    definition = CONDITIONS[condition]
    fields = string.Formatter().parse(definition.message + definition.hint)
    return sorted({name for _, name, _, _ in fields if name and name != "detail"})


@pytest.mark.parametrize("condition", sorted(CONDITIONS))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_every_condition_comes_back_with_all_it_was_raised_with(condition: str, data: st.DataObject) -> None:
    names = parameters_of(condition)
    params = data.draw(st.fixed_dictionaries(dict.fromkeys(names, VALUES)))
    raised = DsError(condition, params, detail=data.draw(TEXTS))
    before, behind = data.draw(AROUND), data.draw(AROUND)
    found = from_wire(before + to_wire(raised) + behind)
    assert found is not None
    assert (found.condition, found.params, found.detail) == (condition, params, raised.detail)
    assert (found.message, found.hint) == (raised.message, raised.hint)


def test_a_value_without_json_is_told_as_a_message_tells_it() -> None:
    raised = error("KINESIS_THROTTLED", operation=ValueError("x"), stream=("a", "b"), seconds=1.5)
    found = from_wire(to_wire(raised))
    assert found is not None
    assert found.message == raised.message


@pytest.mark.parametrize(
    "text", ["", "[ds:INTERNAL]", "[ds:INTERNAL] a sentence", "[ds:NO_SUCH] {}", '[ds:INTERNAL] {"a": ']
)
def test_what_is_no_envelope(text: str) -> None:
    assert from_wire(text) is None


def test_a_plan_that_quotes_an_envelope_hides_none() -> None:
    quoted = "raise_error(concat([ds:BAD_RECORD] , to_json(struct(...))))\n"
    found = from_wire(quoted + to_wire(error("INTERNAL", where="there")))
    assert found is not None
    assert found.params == {"where": "there"}
