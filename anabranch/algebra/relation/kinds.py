"""The operators by what they need and where they may stand."""

from __future__ import annotations

from anabranch.algebra.relation.bags import Aggregate, Distinct, Fixpoint, Join, TopK, Window
from anabranch.algebra.relation.leaves import (
    After,
    Before,
    Change,
    Empty,
    Recursion,
    Scan,
    Stored,
    TableFunction,
    Values,
)
from anabranch.algebra.relation.linear import Expand, Filter, Generate, Negate, Project, UnionAll
from anabranch.algebra.relation.surface import Apply, LateralJoin, SetOperation
from anabranch.algebra.relation.weights import Consolidate, Support, Weigh

LEAVES = (Scan, Before, After, Change, Stored, Empty, Values, TableFunction, Recursion)
LINEAR = (Filter, Project, UnionAll, Negate, Expand, Generate)
NEEDS_BAG = (Distinct, Aggregate, Window, TopK, Fixpoint, SetOperation, Apply, LateralJoin)
SURFACE = (SetOperation, Apply, LateralJoin)
DELTA_ONLY = (Before, After, Change, Stored, Consolidate, Support, Weigh)
KERNEL = (
    Scan,
    Empty,
    Values,
    TableFunction,
    Recursion,
    Filter,
    Project,
    UnionAll,
    Negate,
    Expand,
    Generate,
    Join,
    Distinct,
    Aggregate,
    Window,
    TopK,
    Fixpoint,
)
