"""The grammar of FROM: tables, joins, lateral views, pivots."""

from __future__ import annotations

from anabranch.sql.calls import CallGrammar
from anabranch.sql.cursor import NO_ALIAS
from anabranch.sql.from_syntax import (
    Derived,
    FromItem,
    InlineTable,
    JoinItem,
    LateralView,
    PipeInput,
    Pivot,
    Renamed,
    Table,
    TableCall,
    Unpivot,
)
from anabranch.sql.query_syntax import Item
from anabranch.sql.syntax import Call, Expr, Name, Opaque, Paren, Row
from anabranch.sql.tokens import Kind

AFTER_TABLE = (
    *(")", ",", ";", "|>", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT"),
    *("MINUS", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "WINDOW", "SORT", "CLUSTER"),
)
JOIN_WORDS = ("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL")


class RelationGrammar(CallGrammar):
    """FROM is left-deep: a comma is a cross join, and a join after it sees everything to its left."""

    def from_clause(self) -> FromItem:
        start = self.index
        found = self._relation(None)
        while self.accept(","):
            found = self._relation(found)
        while self.at("LATERAL", "VIEW"):
            found = self._lateral_view(found, start)
        return self._extended(found, start)

    def _relation(self, left: FromItem | None) -> FromItem:
        start = self.index if left is None else left.start
        lateral = self.accept("LATERAL")
        right = self._primary_relation(lateral)
        found = right if left is None else JoinItem(start, self.index, "cross", left, right)
        return self._extended(found, start)

    def _extended(self, found: FromItem, start: int) -> FromItem:
        while True:
            if (join := self.join(found, start)) is not None:
                found = join
            elif self.at("PIVOT", "("):
                found = self._pivot(found, start)
            elif self.at("UNPIVOT"):
                found = self._unpivot(found, start)
            elif self.at("LATERAL", "VIEW"):
                found = self._lateral_view(found, start)
            else:
                return found

    def join(self, left: FromItem, start: int) -> FromItem | None:
        """`[kind] JOIN right [ON ... | USING ...]` after `left`."""
        if not self.at_any(JOIN_WORDS):
            return None
        natural = self.accept("NATURAL")
        kind = self._join_kind()
        self.expect("JOIN")
        lateral = self.accept("LATERAL")
        right = self._primary_relation(lateral)
        on: Expr | None = None
        using: tuple[str, ...] = ()
        if self.accept("ON"):
            on = self.expression()
        elif self.accept("USING"):
            using = self.name_list()
        return JoinItem(start, self.index, kind, left, right, natural, using, on)

    def _join_kind(self) -> str:
        for word in ("INNER", "CROSS"):
            if self.accept(word):
                return word.lower()
        for side in ("LEFT", "RIGHT", "FULL"):
            if self.accept(side):
                if side == "LEFT" and (self.accept("SEMI") or self.accept("ANTI")):
                    return self.source.tokens[self.index - 1].text.lower()
                self.accept("OUTER")
                return side.lower()
        for word in ("SEMI", "ANTI"):
            if self.accept(word):
                return word.lower()
        return "inner"

    def _primary_relation(self, lateral: bool) -> FromItem:
        start = self.index
        if self.at("("):
            return self._parenthesised(start, lateral)
        if self.at("VALUES") and not self.at_any((".", ",", ")"), 1):
            return self.inline_table(start)
        parts = self._table_name()
        if self.at("("):
            call = self.call(start, parts)
            if not isinstance(call, Call):
                self.fail("expected a table-valued function", start)
            alias, columns = self._table_alias()
            return TableCall(start, self.index, call, alias, columns, lateral)
        name_end = self.index
        versioned = self._version()
        sampled = self._sample()
        alias, columns = self._table_alias()
        return Table(start, self.index, parts, alias, columns, sampled, versioned, name_end)

    def _table_name(self) -> tuple[str, ...]:
        if self.at("TABLE") and self.at_name(1):
            self.index += 1
        return self.names()

    def _parenthesised(self, start: int, lateral: bool) -> FromItem:
        query = self.attempt(lambda: self.in_parentheses(self.query)) if self.query_ahead(1) else None
        if query is not None:
            sampled = self._sample()
            alias, columns = self._table_alias()
            return Derived(start, self.index, query, alias, columns, sampled, lateral)
        child = self.in_parentheses(self.from_clause)
        sampled = self._sample()
        alias, columns = self._table_alias()
        if alias is None and not sampled:
            return child
        return Renamed(start, self.index, child, alias, columns, sampled)

    def inline_table(self, start: int) -> InlineTable:
        self.expect("VALUES")
        rows = self.comma_separated(self._values_row)
        rows_end = self.index
        alias, columns = self._table_alias()
        return InlineTable(start, self.index, rows, rows_end, alias, columns)

    def _values_row(self) -> tuple[Expr, ...]:
        value = self.expression()
        if isinstance(value, Row):
            return value.items
        if isinstance(value, Paren):
            return (value.inner,)
        return (value,)

    def _table_alias(self) -> tuple[str | None, tuple[str, ...]]:
        alias = self.name() if self._keyword_as_alias() else self.alias()
        columns = self.name_list() if alias is not None and self.at("(") else ()
        return alias, columns

    def _keyword_as_alias(self) -> bool:
        """Spark reads `FROM t WHERE (a)` as a table named WHERE with a column a, unless more of a condition follows."""
        if not self.at_any(("WHERE", "HAVING", "QUALIFY")) or not self.at("(", ahead=1):
            return False
        start = self.index
        self.index += 1
        names = self.attempt(self.name_list)
        ended = names is not None and (self.token().kind is Kind.END or self.at_any(AFTER_TABLE))
        self.index = start
        return ended

    def _version(self) -> bool:
        ahead = 1 if self.at("FOR") else 0
        if self.at_any(("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME"), ahead) and self.at(
            "AS", "OF", ahead=ahead + 1
        ):
            self.index += ahead + 3
            self.value()
            return True
        return False

    def _sample(self) -> bool:
        if not self.accept("TABLESAMPLE"):
            return False
        self.skip_balanced()
        if self.accept("REPEATABLE"):
            self.skip_balanced()
        return True

    def _lateral_view(self, child: FromItem | None, start: int) -> LateralView:
        self.expect("LATERAL", "VIEW")
        outer = self.accept("OUTER")
        call = self.call(self.index, self.names())
        if not isinstance(call, Call):
            self.fail("expected a generator", start)
        # the alias of the view itself may be left out: LATERAL VIEW explode(x) AS y
        alias = self.name() if not self.at("AS") and self.at_name() and self._is_view_alias() else None
        columns: tuple[str, ...] = ()
        if self.accept("AS") or (alias is not None and self.at_name() and self._is_view_alias()):
            columns = self.comma_separated(self.name)
        return LateralView(start, self.index, child, call, outer, alias, columns)

    def _is_view_alias(self) -> bool:
        return self.token().kind is Kind.QUOTED or self.token().upper not in NO_ALIAS

    def _pivot(self, child: FromItem, start: int) -> Pivot:
        clause = self.index
        self.expect("PIVOT", "(")
        aggregates = self.comma_separated(self.item)
        self.expect("FOR")
        columns: tuple[Expr, ...]
        if self.at("("):
            columns = self.in_parentheses(lambda: self.comma_separated(self.value))
        else:
            columns = (self._column(),)
        self.expect("IN")
        values = self.in_parentheses(lambda: self.comma_separated(self.item))
        self.expect(")")
        clause_end = self.index
        alias, names = self._table_alias()
        return Pivot(start, self.index, child, clause, clause_end, aggregates, columns, values, alias, names)

    def item(self) -> Item:
        """One item of a SELECT list."""
        value = self.expression()
        if self.at("AS", "("):
            self.index += 1
            return Item(value, self.name_list())
        if self.at("(") and not isinstance(value, Opaque):
            return Item(value, self.name_list())
        alias = self.column_alias()
        return Item(value, () if alias is None else (alias,))

    def _unpivot(self, child: FromItem, start: int) -> Unpivot:
        clause = self.index
        self.expect("UNPIVOT")
        include = self.accept("INCLUDE", "NULLS")
        if not include:
            self.accept("EXCLUDE", "NULLS")
        self.expect("(")
        several = self.at("(")
        values = self.name_list() if several else (self.name(),)
        self.expect("FOR")
        name = self.name()
        self.expect("IN")
        sources = self.in_parentheses(lambda: self.comma_separated(lambda: self._unpivot_source(several)))
        self.expect(")")
        clause_end = self.index
        alias, columns = self._table_alias()
        return Unpivot(start, self.index, child, clause, clause_end, include, values, name, sources, alias, columns)

    def _unpivot_source(self, several: bool) -> tuple[tuple[Expr, ...], str | None]:
        if several:
            columns = self.in_parentheses(lambda: self.comma_separated(self._column))
        else:
            columns = (self._column(),)
        return columns, self.alias()

    def _column(self) -> Expr:
        start = self.index
        parts = self.names()
        return Name(start, self.index, parts)

    def pipe_input(self) -> PipeInput:
        return PipeInput(self.index, self.index)
