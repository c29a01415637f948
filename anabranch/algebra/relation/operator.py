"""What all operators have in common: named columns, derived inputs, one object for equal ones."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from anabranch.algebra.expression import Expression, column

RESERVED_PREFIX = "__ab_"
WEIGHT = "__ab_weight"
"""The column that says how often a row is there more (or, below zero, less)."""
ROWID = "__ab_rowid"
"""The column by which a stored row is deleted."""
WAS_THERE = "__ab_was_there"
IS_THERE = "__ab_is_there"
"""Columns of a scan of two versions of a table: whether the row is in the first, and in the second."""
FILE = "__ab_file"
POSITION = "__ab_position"
STORED_ROWID = "__ab_stored_rowid"
"""Columns of a scan of files as they are: a row's address, and the rowid that the file itself gives it, if it does."""


@dataclass(frozen=True, slots=True)
class Column:
    """A named column; the type is Spark DDL text, such as `decimal(12,2)`."""

    name: str
    type: str

    @property
    def value(self) -> Expression:
        """The column as an expression."""
        return column(self.name, self.type)


_Operator = TypeVar("_Operator", bound="Relation")


@cache
def field_names(operator: type[Relation]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(operator))


class _Interned(type):
    """Makes equal operators one object: an operator's fields are compared once, when it is built."""

    if not TYPE_CHECKING:

        def __call__(cls, *arguments: Any, **named: Any) -> Any:
            return _one_of(super().__call__(*arguments, **named))


def over_alike_inputs(relation: _Operator, inputs: Mapping[str, object]) -> _Operator:
    """The same operator with inputs, by field, that have the columns of those before: nothing has to be checked.

    Most operators that a tick makes are such ones: a leaf has got another name.
    """
    made = object.__new__(type(relation))
    for name in field_names(type(relation)):
        object.__setattr__(made, name, inputs[name] if name in inputs else getattr(relation, name))
    made.__dict__.update((name, getattr(relation, name)) for name in ("columns", "names"))
    return _one_of(made)


def _one_of(built: _Operator) -> _Operator:
    key = (type(built), *(getattr(built, name) for name in field_names(type(built))))
    with _interned_lock:
        found: _Operator = _interned.setdefault(key, built)
    return found


_interned: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()
_interned_lock = threading.Lock()


class Relation(metaclass=_Interned):
    """Base of all operators. `columns` is derived from the fields."""

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

        @property
        def columns(self) -> tuple[Column, ...]: ...

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.columns)

    @cached_property
    def children(self) -> tuple[Relation, ...]:
        """Direct inputs, in field order."""
        found: list[Relation] = []
        for name in field_names(type(self)):
            value = getattr(self, name)
            if isinstance(value, Relation):
                found.append(value)
            elif isinstance(value, tuple):
                found.extend(item for item in value if isinstance(item, Relation))
        return tuple(found)

    def column(self, name: str) -> Column:
        for each in self.columns:
            if each.name == name:
                return each
        raise KeyError(f"column {name!r} is not among {', '.join(self.names)}")


@dataclass_transform(frozen_default=True, eq_default=False)
def operator(cls: type[_Operator]) -> type[_Operator]:
    return dataclass(frozen=True, eq=False, repr=False)(cls)


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def check_reads(expressions: Iterable[Expression], *inputs: Relation) -> None:
    known = {name for relation in inputs for name in relation.names}
    for each in expressions:
        missing = each.columns - known
        require(not missing, f"{each} reads {', '.join(sorted(missing))}; existing columns: {', '.join(sorted(known))}")


def check_unique(columns: Iterable[Column]) -> None:
    seen: set[str] = set()
    for each in columns:
        folded = each.name.lower()
        require(folded not in seen, f"column {each.name!r} appears twice")
        seen.add(folded)


def iterate(root: Relation) -> Iterator[Relation]:
    """Every operator of the plan once, inputs before their readers."""
    seen: set[Relation] = set()
    stack: list[tuple[Relation, bool]] = [(root, False)]
    while stack:
        relation, expanded = stack.pop()
        if expanded:
            yield relation
        elif relation not in seen:
            seen.add(relation)
            stack.append((relation, True))
            stack.extend((child, False) for child in reversed(relation.children))
