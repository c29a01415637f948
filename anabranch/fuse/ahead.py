"""A table's change put into the plans of its readers: one job then works out several levels of the graph.

    reader's plan:  Change(t)  ->  the plan of t's change        After(t)  ->  Before(t) + the plan of t's change

The change is computed once more for each reader, in the same job, which for a small plan is less work than another job.
So it has to come out the same every time: no floating-point numbers, whose sums depend on their order.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.algebra.expression import column
from anabranch.algebra.relation import Column, Filter, Output, Project, Relation, iterate
from anabranch.algebra.walk import tree_size

NOTHING: Mapping[str, Relation] = {}
LARGEST = 24
"""Planning so many operators once more takes about as long as another job; of larger changes readers await the rows."""


def comes_out_the_same(change: Relation) -> bool:
    """Whether the plan gives the same rows however often it is run over the same inputs."""
    return all(_is_exact(each) for operator in iterate(change) for each in operator.columns)


def is_moderate(*plans: Relation | None) -> bool:
    """Whether the plans are small enough to be run as part of others."""
    return sum(tree_size(each) for each in plans if each is not None) <= LARGEST


def seen_by_readers(change: Relation, columns: tuple[Column, ...], flag: str | None) -> Relation:
    """What readers see of a stored table's change: these columns of the rows in which the flag is true."""
    shown = Filter(change, (column(flag, "boolean"),)) if flag else change
    return Project(shown, tuple(Output(each.name, each.value) for each in columns))


def _is_exact(each: Column) -> bool:
    return "float" not in each.type and "double" not in each.type
