"""The grammar of queries: WITH, SELECT, set operations, ORDER BY and LIMIT, pipes."""

from __future__ import annotations

from anabranch.sql.from_syntax import FromItem, LateralView, Table
from anabranch.sql.query_syntax import (
    Body,
    Cte,
    Group,
    GroupItem,
    GroupKind,
    Item,
    Query,
    QueryBody,
    Select,
    SetBody,
    TableBody,
    ValuesBody,
)
from anabranch.sql.relations import RelationGrammar
from anabranch.sql.syntax import Expr, Name, Paren, Row, SortItem, Star, WindowSpec

UNIONS = ("UNION", "EXCEPT", "MINUS")
SET_OPERATORS = (*UNIONS, "INTERSECT")


class QueryGrammar(RelationGrammar):
    """`query` is the entry; it is also what every subquery is read with."""

    def pipe(self, body: Body) -> Body:
        raise NotImplementedError

    def query(self) -> Query:
        start = self.index
        recursive = False
        ctes: tuple[Cte, ...] = ()
        if self.accept("WITH"):
            recursive = self.accept("RECURSIVE")
            ctes = self.comma_separated(self._cte)
        body = self._set_operations()
        if self.at("|>"):
            body = self.pipe(body)
        return self.organised(start, body, ctes, recursive)

    def organised(self, start: int, body: Body, ctes: tuple[Cte, ...] = (), recursive: bool = False) -> Query:
        """ORDER BY, SORT BY, WINDOW, LIMIT, OFFSET."""
        order: tuple[SortItem, ...] = ()
        sorted_within = False
        windows: tuple[tuple[str, WindowSpec], ...] = ()
        limit: Expr | None = None
        offset: Expr | None = None
        while True:
            if self.accept("ORDER", "BY"):
                order = self.comma_separated(self.sort_item)
            elif self.accept("SORT", "BY") or self.accept("CLUSTER", "BY"):
                self.comma_separated(self.sort_item)
                sorted_within = True
            elif self.accept("DISTRIBUTE", "BY"):
                self.comma_separated(self.expression)
            elif self.at("WINDOW") and self.at("AS", ahead=2):
                windows = self.window_clause()
            elif self.accept("LIMIT"):
                limit = None if self._limit_all() else self.expression()
            elif self.accept("OFFSET"):
                offset = self.expression()
            else:
                break
        return Query(start, self.index, body, ctes, recursive, order, sorted_within, windows, limit, offset)

    def _limit_all(self) -> bool:
        return self.accept("ALL")

    def _cte(self) -> Cte:
        name = self.name()
        columns = self.name_list() if self.at("(") and not self.query_ahead(1) else ()
        if self.accept("MAX", "RECURSION", "LEVEL"):
            self.index += 1
        self.accept("AS")
        return Cte(name, columns, self.in_parentheses(self.query))

    def window_clause(self) -> tuple[tuple[str, WindowSpec], ...]:
        self.expect("WINDOW")
        return self.comma_separated(self._named_window)

    def _named_window(self) -> tuple[str, WindowSpec]:
        name = self.name()
        self.expect("AS")
        return name, self.window_spec()

    def _set_operations(self) -> Body:
        start, left = self.index, self._intersections()
        while self.at_any(UNIONS):
            operator, every, by_name = self.set_operator()
            right = self._intersections()
            left = SetBody(start, self.index, operator, every, by_name, left, right)
        return left

    def _intersections(self) -> Body:
        start, left = self.index, self.body()
        while self.at("INTERSECT"):
            operator, every, by_name = self.set_operator()
            right = self.body()
            left = SetBody(start, self.index, operator, every, by_name, left, right)
        return left

    def set_operator(self) -> tuple[str, bool, bool]:
        operator = self.token().upper
        self.index += 1
        every = self.accept("ALL")
        if not every:
            self.accept("DISTINCT")
        by_name = self.accept("BY", "NAME")
        return "EXCEPT" if operator == "MINUS" else operator, every, by_name

    def body(self) -> Body:
        """A query without WITH, set operations and ORDER BY."""
        start = self.index
        if self.at("("):
            query = self.in_parentheses(self.query)
            return QueryBody(start, self.index, query)
        if self.at("VALUES"):
            values = self.inline_table(start)
            return ValuesBody(start, self.index, values)
        if self.accept("TABLE"):
            parts = self.names()
            table = Table(start + 1, self.index, parts, parts[-1], name_end=self.index, whole=True)
            return TableBody(start, self.index, table)
        if self.accept("FROM"):
            source = self.from_clause()
            if self.at("SELECT"):
                return self._select(start, source)
            return Select(start, self.index, (Item(Star(start, start)),), source=source)
        return self._select(start, None)

    def _select(self, start: int, source: FromItem | None) -> Select:
        self.expect("SELECT")
        if self.at_any(("TRANSFORM", "MAP", "REDUCE")) and self._is_script():
            self.fail("a script transformation is not understood")
        distinct = self.set_quantifier()
        items = self.comma_separated(self.item)
        if source is None and self.accept("FROM"):
            source = self.from_clause()
        while self.at("LATERAL", "VIEW"):
            source = self._view_without_from(source, start)
        where = self.expression() if self.accept("WHERE") else None
        group = self.group() if self.accept("GROUP", "BY") else None
        having = self.expression() if self.accept("HAVING") else None
        qualify = self.expression() if self.accept("QUALIFY") else None
        windows = self.window_clause() if self.at("WINDOW") and self.at("AS", ahead=2) else ()
        if qualify is None and self.accept("QUALIFY"):
            qualify = self.expression()
        return Select(start, self.index, items, distinct, source, where, group, having, qualify, windows)

    def set_quantifier(self) -> bool:
        if self.at("DISTINCT") and not self.at_any((",", "FROM", ".", ")"), 1):
            self.index += 1
            return True
        if self.at("ALL") and not self.at_any((",", "FROM", ".", ")"), 1):
            self.index += 1
        return False

    def _is_script(self) -> bool:
        position = self.index
        self.index += 1
        script = False
        if self.at("("):
            self.skip_balanced()
            script = self.at("USING")
        self.index = position
        return script

    def _view_without_from(self, source: FromItem | None, start: int) -> LateralView:
        return self._lateral_view(source, start)

    def group(self) -> Group:
        if self.at("ALL") and not self.at_any((",", ".", "("), 1):
            self.index += 1
            return Group((), everything=True)
        items = self.comma_separated(self._group_item)
        suffix: GroupItem | None = None
        if self.accept("WITH", "ROLLUP"):
            suffix = GroupItem(GroupKind.ROLLUP)
        elif self.accept("WITH", "CUBE"):
            suffix = GroupItem(GroupKind.CUBE)
        elif self.at("GROUPING", "SETS"):
            suffix = self._group_item()
        return Group(items, False, suffix)

    def _group_item(self) -> GroupItem:
        if self.at("GROUPING", "SETS"):
            self.index += 2
            return GroupItem(
                GroupKind.SETS, nested=self.in_parentheses(lambda: self.comma_separated(self._set_element))
            )
        for kind in (GroupKind.ROLLUP, GroupKind.CUBE):
            if self.at(kind.name, "("):
                self.index += 1
                sets = self.in_parentheses(lambda: self.comma_separated(self._grouping_set))
                return GroupItem(kind, sets)
        return GroupItem(GroupKind.PLAIN, ((self.expression(),),))

    def _set_element(self) -> GroupItem:
        if self.at("GROUPING", "SETS") or self.at("ROLLUP", "(") or self.at("CUBE", "("):
            return self._group_item()
        return GroupItem(GroupKind.PLAIN, (self._grouping_set(),))

    def _grouping_set(self) -> tuple[Expr, ...]:
        if self.at("(", ")"):
            self.index += 2
            return ()
        value = self.expression()
        if isinstance(value, Row):
            return value.items
        if isinstance(value, Paren) and isinstance(value.inner, Name):
            return (value.inner,)
        return (value,)
