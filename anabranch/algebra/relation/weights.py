"""Operators that only a delta plan has: from weights to rows and back."""

from __future__ import annotations

from functools import cached_property

from anabranch.algebra.relation.operator import Column, Relation, operator


@operator
class Consolidate(Relation):
    """Sum the weights of identical rows (byte identity) and drop the zeros: the normal form of a Z-set."""

    child: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@operator
class Support(Relation):
    """The rows that occur at all, with either sign, once each: the keys a change touches.

    Defined on the terms as they stand: a row whose weights cancel may or may not occur, and nobody may depend on it.
    """

    child: Relation

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@operator
class Weigh(Relation):
    """Turn the weight into a BIGINT column, every row then counting once. Only sums of it mean anything above."""

    child: Relation
    weight: str

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, Column(self.weight, "bigint"))
