"""Make the lowered plan small: conditions at their tables, joins that join, only the columns that are read.

Each pass leaves the rows as they are; none of them copies a sub-plan that several readers share.
"""

from __future__ import annotations

from anabranch.algebra.relation import Relation
from anabranch.lower.merge_projects import merge_projects
from anabranch.lower.names import FreshNames
from anabranch.lower.order_joins import order_joins
from anabranch.lower.prune_columns import prune_columns
from anabranch.lower.push_filters import push_filters

PASSES = (merge_projects, push_filters, order_joins, prune_columns, merge_projects)


def tidy(root: Relation, names: FreshNames) -> Relation:
    """The same rows under the same columns."""
    for each_pass in PASSES:
        root = each_pass(root, names)
    return root
