"""The language in the middle: relational operators as frozen values.

Every operator maps Z-sets (rows with integer weights) to a Z-set; `algebra/interpret.py` is their meaning. A plan is a
DAG, not a tree: equal operators are one object (they are interned), so equality and hashing are by identity, a shared
sub-plan is found by looking, and every walk is memoised.

Columns are named, and names are unique within an operator's output, whatever the case of their letters. Names starting
with `__ab_` are ours.

LINEAR operators are defined for all weights. The others (`NEEDS_BAG`) are defined on bags: after summing, no weight is
negative. For joins other than inner, the side that is tested for partners must be a bag, the preserved side need not.

A file each for the base, the leaves, the linear operators, those on bags, those of queries and those of delta plans
alone; this package names them all.
"""

from anabranch.algebra.relation.bags import (
    Aggregate,
    Aggregation,
    Distinct,
    Fixpoint,
    Join,
    JoinKind,
    SortKey,
    TopK,
    Window,
)
from anabranch.algebra.relation.kinds import DELTA_ONLY, KERNEL, LEAVES, LINEAR, NEEDS_BAG, SURFACE
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
from anabranch.algebra.relation.linear import Expand, Filter, Generate, Negate, Output, Project, UnionAll
from anabranch.algebra.relation.operator import (
    FILE,
    IS_THERE,
    POSITION,
    RESERVED_PREFIX,
    ROWID,
    STORED_ROWID,
    WAS_THERE,
    WEIGHT,
    Column,
    Relation,
    iterate,
)
from anabranch.algebra.relation.surface import Apply, ApplyKind, LateralJoin, SetKind, SetOperation
from anabranch.algebra.relation.weights import Consolidate, Support, Weigh

__all__ = [
    "FILE",
    "POSITION",
    "STORED_ROWID",
    "After",
    "Aggregate",
    "Aggregation",
    "Apply",
    "ApplyKind",
    "Before",
    "Change",
    "Column",
    "Consolidate",
    "DELTA_ONLY",
    "Distinct",
    "Empty",
    "Expand",
    "Filter",
    "Fixpoint",
    "Generate",
    "IS_THERE",
    "Join",
    "JoinKind",
    "KERNEL",
    "LEAVES",
    "LINEAR",
    "LateralJoin",
    "NEEDS_BAG",
    "Negate",
    "Output",
    "Project",
    "RESERVED_PREFIX",
    "ROWID",
    "Recursion",
    "Relation",
    "SURFACE",
    "Scan",
    "SetKind",
    "SetOperation",
    "SortKey",
    "Stored",
    "Support",
    "TableFunction",
    "TopK",
    "UnionAll",
    "Values",
    "WAS_THERE",
    "WEIGHT",
    "Weigh",
    "Window",
    "iterate",
]
