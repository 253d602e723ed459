"""Failures cross processes as name and parameters: every condition, with parameters that hold anything."""

from __future__ import annotations

import itertools
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_dagster.conditions import CONDITIONS
from ds_dagster.envelope import from_wire, to_wire
from ds_dagster.errors import DsError, error
from tests.tables import check_every

TEXTS = st.text(st.sampled_from("ab[]{}()\"'\\\n\r\t:,% ä漢\u2028") | st.characters(codec="utf-8"), max_size=20)
VALUES = TEXTS | st.integers() | st.booleans() | st.none() | st.lists(TEXTS, max_size=3)
AROUND = ("", "[STREAM_FAILED] it ended: ", "[ds:", "[ds:x] {", "Job aborted due to\n\t{", "[ds:NO_SUCH] {} ")
AWKWARD = (
    "",
    "[ds:INTERNAL] {}",
    "\"}'\\",
    "{a}\n\r\t:,% ",
    "\u00e4\u6f22\u2028",
    -1,
    True,
    None,
    ["[", "\n", "{"],
    "]}()",
)
"""Values that look like parts of an envelope, are escaped in JSON or are no texts."""


def parameters_of(condition: str) -> list[str]:
    definition = CONDITIONS[condition]
    fields = string.Formatter().parse(definition.message + definition.hint)
    return sorted({name for _, name, _, _ in fields if name and name != "detail"})


def check_comes_back(raised: DsError, before: str, behind: str) -> None:
    found = from_wire(before + to_wire(raised) + behind)
    assert found is not None
    assert (found.condition, found.params, found.detail) == (raised.condition, raised.params, raised.detail)
    assert (found.message, found.hint) == (raised.message, raised.hint)


def test_every_condition_comes_back_with_all_it_was_raised_with() -> None:
    def check_condition(condition: str) -> None:
        turn = itertools.cycle(AWKWARD)
        for before, behind in itertools.pairwise((*AROUND, AROUND[0])):
            params = {name: next(turn) for name in parameters_of(condition)}
            raised = DsError(condition, params, detail=str(next(turn)))
            assert raised.params == params
            check_comes_back(raised, before, behind)

    check_every(sorted(CONDITIONS), check_condition)


@pytest.mark.sweep
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_condition_comes_back_with_anything(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(sorted(CONDITIONS)))
    params = data.draw(st.fixed_dictionaries(dict.fromkeys(parameters_of(condition), VALUES)))
    raised = DsError(condition, params, detail=data.draw(TEXTS))
    assert raised.params == params
    check_comes_back(raised, data.draw(st.sampled_from(AROUND)), data.draw(st.sampled_from(AROUND)))


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
