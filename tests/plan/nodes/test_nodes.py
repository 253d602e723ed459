"""What every class of plan nodes has to say, and that one that does not is refused by name."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import pytest

from ds_dagster.errors import DsError
from ds_dagster.plan.nodes.node import Field, Names, Node, Sources
from ds_dagster.plan.nodes.relation_shapes import Shape
from ds_dagster.plan.nodes.rows import Passing
from ds_dagster.plan.nodes.shaping import Shaper
from tests.plan.conftest import node_classes

ASKED = sorted(name for name, value in vars(Node).items() if getattr(value, "__isabstractmethod__", False))


class Answers:
    """What a node of a test says."""

    @property
    def output(self) -> tuple[Field, ...]:
        return ()

    @property
    def untimed(self) -> str:
        return ""

    def shape(self, _shaper: Shaper) -> Shape:
        return []

    def about(self) -> str:
        return ""

    def lineage(self, below: Sources) -> Sources:
        return below

    def pruned(self, _needed: Names) -> object:
        return self


def test_every_node_answers_what_nodes_are_asked() -> None:
    assert set(ASKED) >= {"about", "lineage", "output", "pruned", "shape", "untimed"}
    for kind in node_classes():
        silent = [name for name in dir(kind) if getattr(getattr(kind, name), "__isabstractmethod__", False)]
        assert not silent, (kind, silent)
        assert not kind.__dict__.get("is_base"), f"{kind} is a node of plans and a base of nodes"


@pytest.mark.parametrize("name", ASKED)
def test_a_node_without_an_answer_is_refused_by_name(name: str) -> None:
    answers = {other: vars(Answers)[other] for other in ASKED if other != name}
    with pytest.raises(DsError, match=f"plan node Silent does not say its {name}"):
        type("Silent", (Node,), answers)


def test_a_node_with_state_says_what_it_keeps() -> None:
    answers = {name: vars(Answers)[name] for name in ASKED}
    with pytest.raises(DsError, match="plan node Keeper does not say its keeps, growth"):
        type("Keeper", (Node,), {**answers, "is_stateful": property(lambda _node: True)})


def test_a_base_may_leave_answers_to_its_nodes() -> None:
    assert inspect.isfunction(vars(Passing)["pruned"])

    @dataclass(frozen=True, slots=True)
    class Base(Node):
        is_base = True

    assert Base.__dict__["is_base"]
