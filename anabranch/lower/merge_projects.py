"""Fold neighbouring projections, filters and unions into one, and drop projections that change nothing.

    project (project (R, x := e), y := f(x))  =  project (R, y := f(e))

Only where no expression is then evaluated more often than before: `e` may be a column or a constant, or `x` may be read
once. So texts do not grow, however deep the nesting.
"""

from __future__ import annotations

from collections import Counter

from anabranch.algebra.expression import Expression, Ref
from anabranch.algebra.relation import Output, Project, Relation, UnionAll, iterate
from anabranch.algebra.walk import with_children
from anabranch.lower.names import FreshNames
from anabranch.lower.sharing import shared_by_several


def merge_projects(root: Relation, names: FreshNames) -> Relation:
    """The plan without needless projections and unions."""
    shared = shared_by_several(root)
    done: dict[Relation, Relation] = {}
    for relation in iterate(root):
        rebuilt = with_children(relation, {child: done[child] for child in relation.children})
        if isinstance(relation, Project) and isinstance(rebuilt, Project):
            rebuilt = _without_effectless(_folded(rebuilt, relation.child in shared))
        elif isinstance(relation, UnionAll):
            inner = tuple(part for each in relation.inputs for part in _branches(done[each], each in shared))
            rebuilt = UnionAll(inner) if len(inner) > 1 else inner[0]
        done[relation] = rebuilt
    return done[root]


def _folded(project: Project, child_is_shared: bool) -> Project:
    """The projection over its grandchild, if that costs nothing."""
    below = project.child
    if not isinstance(below, Project):
        return project
    reads = Counter(part.name for each in project.outputs for part in each.value.parts if isinstance(part, Ref))
    limit = 0 if child_is_shared else 1
    if any(not _is_free(each.value) and reads[each.name] > limit for each in below.outputs):
        return project
    if not all(each.value.deterministic for each in (*below.outputs, *project.outputs)):
        return project
    values = {each.name: each.value for each in below.outputs}
    folded = Project(below.child, tuple(Output(each.name, each.value.substitute(values)) for each in project.outputs))
    return _folded(folded, child_is_shared)


def _is_free(value: Expression) -> bool:
    """Whether repeating the value repeats no work: a column or a constant."""
    return value.is_column or not value.columns


def _without_effectless(project: Project) -> Relation:
    same = all(each.value.is_column and each.value.columns == {each.name} for each in project.outputs)
    return project.child if same and project.columns == project.child.columns else project


def _branches(relation: Relation, is_shared: bool) -> tuple[Relation, ...]:
    return relation.inputs if isinstance(relation, UnionAll) and not is_shared else (relation,)
