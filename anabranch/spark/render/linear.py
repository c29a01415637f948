"""Operators that treat each row by itself and leave its weight alone (Negate turns it round)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from anabranch.algebra.relation import WEIGHT, Expand, Filter, Generate, Negate, Project, Relation, UnionAll, Weigh
from anabranch.spark.quote import quoted
from anabranch.spark.render.block import ONE, Block, Cell, Shape, Union, named, references
from anabranch.spark.render.leaves import converted
from anabranch.spark.render.scope import Scope, as_query
from anabranch.spark.types import type_sql


def render_filter(relation: Filter, scope: Scope) -> Shape:
    """... WHERE predicates."""
    block = scope.giving(relation.child, references(relation.predicates) + Counter(relation.names))
    return replace(block, where=block.where + tuple(block.fill(each) for each in relation.predicates))


def render_project(relation: Project, scope: Scope) -> Shape:
    """SELECT outputs ..."""
    values = [output.value for output in relation.outputs]
    block = scope.giving(relation.child, references(values))
    return replace(block, cells={output.name: block.compute(output.value) for output in relation.outputs})


def render_negate(relation: Negate, scope: Scope) -> Shape:
    """SELECT ..., -weight"""
    shape = scope.peek(relation.child)
    if isinstance(shape, Union):
        return Union(tuple(_negated(branch) for branch in shape.branches))
    return _negated(shape if isinstance(shape, Block) else scope.open(relation.child))


def render_weigh(relation: Weigh, scope: Scope) -> Shape:
    """SELECT ..., weight AS n: from now on a plain column of a bag."""
    block = scope.open(relation.child)
    weight = block.weight or ONE
    bare = weight.sign > 0 and len(weight.factors) == 1
    cell = Cell(weight.text, bare=bare, repeatable=bare or not weight.factors)
    return replace(block, cells={**block.cells, relation.weight: cell}, weight=None)


def render_union(relation: UnionAll, scope: Scope) -> Shape:
    """... UNION ALL ...; if one of them is a Z-set, all are."""
    branches: list[Block] = []
    for each in relation.inputs:
        shape = scope.peek(each)
        inputs = shape.branches if isinstance(shape, Union) else (_as_block(shape, each, scope),)
        branches.extend(_conformed(branch, each, relation) for branch in inputs)
    return branches[0] if len(branches) == 1 else Union(tuple(branches))


def render_expand(relation: Expand, scope: Scope) -> Shape:
    """SELECT inline(array(projection, projection ...)): the input is computed once, whatever the projections."""
    block = scope.giving(relation.child, references(*relation.projections))
    projections: list[str] = []
    for row in relation.projections:
        fields = (
            f"'{number}', CAST({block.fill(value)} AS {type_sql(column.type)})"
            for number, (value, column) in enumerate(zip(row, relation.columns, strict=True))
        )
        projections.append(f"named_struct({', '.join(fields)})")
    names = ", ".join(quoted(name) for name in relation.names)
    outputs = [f"inline(array({', '.join(projections)})) AS ({names})"]
    if block.weight:
        outputs.append(named(block.weight.text, WEIGHT))
    return as_query(block, f"{block.head(outputs)} {block.body}", block.weighted)


def render_generate(relation: Generate, scope: Scope) -> Shape:
    """... LATERAL VIEW [OUTER] generator"""
    block = scope.giving(relation.child, references([relation.generator]) + Counter(relation.child.names))
    alias = scope.alias()
    names = ", ".join(quoted(each.name) for each in relation.generated)
    outer = "OUTER " if relation.outer else ""
    lateral = f"LATERAL VIEW {outer}{block.fill(relation.generator)} {alias} AS {names}"
    generated = {
        each.name: Cell(f"{alias}.{quoted(each.name)}", bare=True, repeatable=True) for each in relation.generated
    }
    return replace(block, cells={**block.cells, **generated}, laterals=(*block.laterals, lateral), alias=None)


def _negated(block: Block) -> Block:
    return replace(block, weight=(block.weight or ONE).negated())


def _as_block(shape: Shape, relation: Relation, scope: Scope) -> Block:
    return shape if isinstance(shape, Block) else scope.open(relation)


def _conformed(branch: Block, given: Relation, wanted: UnionAll) -> Block:
    """The branch with the names and types of the union."""
    cells: dict[str, Cell] = {}
    for cell, old, new in zip(branch.cells.values(), given.columns, wanted.columns, strict=True):
        text = converted(cell.text, old.type, new.type)
        cells[new.name] = cell if text == cell.text else Cell(text)
    return replace(branch, cells=cells)
