"""A key restriction as a value: which columns, which key set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import After, Before, Filter, Project, Relation, Scan, Stored, Support
from anabranch.delta.build import at, key_set
from anabranch.delta.simplify import simplify_one

TABLES = (Scan, Before, After, Stored)


@dataclass(frozen=True)
class Key:
    """A column to be restricted. `present`: rows where it is NULL are not wanted, whatever the key set holds."""

    name: str
    present: bool = False


@dataclass(frozen=True)
class Restriction:
    """The rows whose keys are in the key set, column by column, compared with `<=>`."""

    keys: tuple[Key, ...]
    keyset: Relation

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys)

    def apply(self, relation: Relation) -> Relation:
        """The relation restricted just here."""
        return at(relation, self.names, self.keyset)

    def moved_to(self, columns: Sequence[str | None]) -> Restriction | None:
        """The restriction of an input, given the input's column for each key or None; None where there is none."""
        known = [index for index, column in enumerate(columns) if column is not None]
        if not known:
            return None
        keys = tuple(
            replace(key, name=column) for key, column in zip(self.keys, columns, strict=True) if column is not None
        )
        if len(known) == len(columns):
            return Restriction(keys, self.keyset)
        return Restriction(keys, narrow_key_set(self.keyset, [self.keyset.columns[index].value for index in known]))


@dataclass(frozen=True)
class Pushed:
    """A relation that holds at least the rows wanted; `exact`: no others."""

    relation: Relation
    exact: bool


def narrow_key_set(relation: Relation, values: Sequence[Expression]) -> Relation:
    """The values that occur in a relation, as a key set; taken from below where the relation is a key set itself."""
    chosen = key_set(relation, values)
    if chosen.names == tuple(str(value) for value in values) == relation.names:
        return relation
    if isinstance(relation, Support):
        chosen = replace(chosen, child=replace(chosen.child, child=relation.child))
    return simplify_one(replace(chosen, child=simplify_one(chosen.child)))


def is_table(relation: Relation) -> bool:
    """A table, at most filtered and projected: a join with a small side reads it narrowly by itself."""
    while isinstance(relation, Filter | Project):
        relation = relation.child
    return isinstance(relation, TABLES)
