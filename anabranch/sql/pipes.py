"""The grammar of pipe operators: `query |> WHERE ... |> AGGREGATE ...`."""

from __future__ import annotations

from anabranch.sql.from_syntax import Renamed
from anabranch.sql.queries import SET_OPERATORS, QueryGrammar
from anabranch.sql.query_syntax import Body, Group, GroupItem, GroupKind, Item, PipeBody, PipeKind, PipeStep
from anabranch.sql.relations import JOIN_WORDS


class PipeGrammar(QueryGrammar):
    """The whole grammar."""

    def pipe(self, body: Body) -> Body:
        steps: list[PipeStep] = []
        while self.accept("|>"):
            steps.append(self._step())
        return PipeBody(body.start, self.index, body, tuple(steps))

    def _step(self) -> PipeStep:
        start = self.index
        if self.accept("SELECT"):
            distinct = self.set_quantifier()
            items = self.comma_separated(self.item)
            windows = self.window_clause() if self.at("WINDOW") else ()
            return PipeStep(start, self.index, PipeKind.SELECT, items, windows=windows, distinct=distinct)
        if self.accept("EXTEND"):
            items = self.comma_separated(self.item)
            windows = self.window_clause() if self.at("WINDOW") else ()
            return PipeStep(start, self.index, PipeKind.EXTEND, items, windows=windows)
        if self.accept("SET"):
            items = self.comma_separated(self._assignment)
            return PipeStep(start, self.index, PipeKind.SET, items)
        if self.accept("DROP"):
            names = self.comma_separated(self.name)
            return PipeStep(start, self.index, PipeKind.DROP, names=names)
        if self.accept("AS"):
            name = self.name()
            return PipeStep(start, self.index, PipeKind.AS, names=(name,))
        if self.accept("WHERE"):
            condition = self.expression()
            return PipeStep(start, self.index, PipeKind.WHERE, condition=condition)
        if self.accept("AGGREGATE"):
            return self._aggregate(start)
        if self.at_any(SET_OPERATORS):
            operator, every, by_name = self.set_operator()
            right = self.body()
            return PipeStep(
                start, self.index, PipeKind.UNION, operator=operator, all=every, by_name=by_name, right=right
            )
        if self.at_any((*JOIN_WORDS, "PIVOT", "UNPIVOT", "LATERAL")):
            relation = self._extended(self.pipe_input(), start)
            return PipeStep(start, self.index, PipeKind.RELATION, relation=relation)
        if self._sample():
            relation = Renamed(start, self.index, self.pipe_input(), sampled=True)
            return PipeStep(start, self.index, PipeKind.RELATION, relation=relation)
        return self._organisation(start)

    def _assignment(self) -> Item:
        name = self.name()
        self.expect("=")
        return Item(self.expression(), (name,))

    def _aggregate(self, start: int) -> PipeStep:
        items = () if self.at("GROUP", "BY") else self.comma_separated(self.item)
        if not self.accept("GROUP", "BY"):
            return PipeStep(start, self.index, PipeKind.AGGREGATE, items)
        if self.at("ALL") or self.at("GROUPING", "SETS") or self.at("ROLLUP", "(") or self.at("CUBE", "("):
            group = self.group()
            return PipeStep(start, self.index, PipeKind.AGGREGATE, items, group=group)
        keys = self.comma_separated(self.item)
        group = Group(tuple(GroupItem(GroupKind.PLAIN, ((each.value,),)) for each in keys))
        names = tuple(each.names for each in keys)
        return PipeStep(start, self.index, PipeKind.AGGREGATE, items, group=group, group_names=names)

    def _organisation(self, start: int) -> PipeStep:
        query = self.organised(start, Body(start, start))
        if self.index == start:
            self.fail("expected a pipe operator")
        return PipeStep(
            start,
            self.index,
            PipeKind.ORDER,
            order=query.order,
            sorted_within=query.sorted_within,
            limit=query.limit,
            offset=query.offset,
        )
