"""Names visible in a query, and Spark's rules for finding a column by one.

Case does not matter. `a.b.c` is first read with the longest qualifier that names a table (`a.b` then column `c`), at
last as column `a` with field `b` of it. A column of the enclosing query is found only where the query itself has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from anabranch.algebra.expression import Expression
from anabranch.algebra.relation import Column
from anabranch.sql.syntax import Expr


@dataclass(frozen=True, slots=True)
class Field:
    """A column as the user sees it. A hidden one (a USING key of one side) is reached only through its table's name."""

    name: str
    column: Column
    qualifier: tuple[str, ...] = ()
    hidden: bool = False

    def matches(self, qualifier: tuple[str, ...]) -> bool:
        """Whether the qualifier, as written, names this column's table."""
        wanted = tuple(part.lower() for part in qualifier)
        own = tuple(part.lower() for part in self.qualifier)
        return len(wanted) <= len(own) and own[len(own) - len(wanted) :] == wanted


@dataclass(frozen=True, slots=True)
class Found:
    """A column found by name; `rest` are the fields inside it; `outer` says it is the enclosing query's."""

    column: Column
    rest: tuple[str, ...]
    outer: bool = False


class AmbiguousNameError(Exception):
    """A name that means more than one column."""


@dataclass(frozen=True)
class Scope:
    """The columns visible here, and the enclosing query's. `computed`: what subqueries may ask of a grouped query."""

    fields: tuple[Field, ...]
    parent: Scope | None = None
    computed: Mapping[Expr, Expression] = field(default_factory=dict)

    def find(self, parts: tuple[str, ...]) -> Found | None:
        """The column of this query, or None."""
        for width in range(len(parts) - 1, -1, -1):
            candidates = self._candidates(parts[:width], parts[width])
            if candidates:
                return Found(_single(candidates, parts), parts[width + 1 :])
        # a table read as `t` may be written `database.t`
        for width in range(len(parts) - 1, 1, -1):
            candidates = self._candidates(parts[width - 1 : width], parts[width])
            if candidates:
                return Found(_single(candidates, parts), parts[width + 1 :])
        return None

    def find_outer(self, parts: tuple[str, ...]) -> Found | None:
        """The column of the nearest enclosing query that has it."""
        found = (each.find(parts) for each in self._enclosing())
        return next((replace(each, outer=True) for each in found if each is not None), None)

    def computed_outside(self, node: Expr) -> Expression | None:
        """The column that an aggregate of an enclosing query is."""
        return next((each.computed[node] for each in self._enclosing() if node in each.computed), None)

    def _enclosing(self) -> Iterator[Scope]:
        """The enclosing queries, the nearest first."""
        scope = self.parent
        while scope is not None:
            yield scope
            scope = scope.parent

    def _candidates(self, qualifier: tuple[str, ...], name: str) -> list[Field]:
        named = [each for each in self.fields if each.name.lower() == name.lower()]
        if not qualifier:
            return [each for each in named if not each.hidden]
        matching = [each for each in named if each.matches(qualifier)]
        visible = [each for each in matching if not each.hidden]
        return visible or matching

    def star(self, qualifier: tuple[str, ...]) -> list[Field]:
        """The columns `*` or `t.*` stands for; empty where no table has that name."""
        if not qualifier:
            return [each for each in self.fields if not each.hidden]
        matching = [each for each in self.fields if each.matches(qualifier)]
        return [each for each in matching if each.hidden] + [each for each in matching if not each.hidden]

    def star_outer(self, qualifier: tuple[str, ...]) -> list[Field]:
        """The columns of the nearest enclosing query's table of that name."""
        return next((found for each in self._enclosing() if (found := each.star(qualifier))), [])


def _single(candidates: Iterable[Field], parts: tuple[str, ...]) -> Column:
    columns = list(dict.fromkeys(each.column for each in candidates))
    if len(columns) > 1:
        raise AmbiguousNameError(".".join(parts))
    return columns[0]


def requalified(fields: Iterable[Field], qualifier: tuple[str, ...]) -> tuple[Field, ...]:
    """The visible columns under a new table name."""
    return tuple(Field(each.name, each.column, qualifier) for each in fields if not each.hidden)
