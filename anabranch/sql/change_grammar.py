"""The grammar of INSERT, UPDATE, DELETE and MERGE."""

from __future__ import annotations

from anabranch.errors import QueryError
from anabranch.sql.from_syntax import Derived, FromItem, InlineTable, Renamed, Table, TableCall
from anabranch.sql.parse import tables_in
from anabranch.sql.query_syntax import ValuesBody
from anabranch.sql.statement_grammar import DefinitionGrammar
from anabranch.sql.statement_nodes import (
    Assignment,
    Change,
    Delete,
    DeleteClause,
    Fragment,
    Insert,
    InsertClause,
    Merge,
    QualifiedName,
    Update,
    UpdateClause,
)
from anabranch.sql.syntax import Expr, Name


class ChangeGrammar(DefinitionGrammar):
    """Statements that change rows; every expression in them is a fragment."""

    def change(self) -> Change | None:
        prefix = self._with_before_insert()
        if self.accept("INSERT"):
            return self._insert(prefix)
        if self.accept("UPDATE"):
            return self._update()
        if self.accept("DELETE"):
            self.expect("FROM")
            target, alias = self._target()
            return Delete(target, alias, self._condition())
        if self.accept("TRUNCATE"):
            self.expect("TABLE")
            return Delete(self.names())
        if self.accept("MERGE"):
            return self._merge()
        return None

    def fragment(self, node: object, start: int) -> Fragment:
        return Fragment(self.source, start, self.index, tables_in(node))

    def _expression_fragment(self) -> Fragment:
        start = self.index
        return self.fragment(self.expression(), start)

    def _with_before_insert(self) -> Fragment | None:
        start = self.index
        if not self.accept("WITH"):
            return None
        recursive = self.accept("RECURSIVE")
        ctes = self.attempt(lambda: self.comma_separated(self._cte))
        if ctes is None or recursive or not self.at("INSERT"):
            self.index = start
            return None
        return self.fragment(tuple(each.query for each in ctes), start)

    def _insert(self, prefix: Fragment | None) -> Insert:
        if self.at("OVERWRITE"):
            raise QueryError(
                "INSERT_OVERWRITE",
                "INSERT OVERWRITE is not supported",
                "a lake keeps every change exactly; replacing all rows is two changes",
                "write DELETE FROM and INSERT INTO in one transaction",
            )
        self.expect("INTO")
        self.accept("TABLE")
        target = self.names()
        if self.at("PARTITION") or self.at("REPLACE"):
            self.fail("INSERT with PARTITION or REPLACE is not supported")
        by_name = self.accept("BY", "NAME")
        columns = self.name_list() if self.at("(") and not self.query_ahead(1) else ()
        start = self.index
        query = self.query()
        defaults = self._defaults(query.body.values) if isinstance(query.body, ValuesBody) else ()
        return Insert(
            target, Fragment(self.source, start, self.index, tables_in(query), defaults), columns, by_name, prefix
        )

    def _defaults(self, values: InlineTable) -> tuple[int, ...]:
        return tuple(each.start for row in values.rows for each in row if is_default(each))

    def _target(self) -> tuple[QualifiedName, str | None]:
        return self.names(), self.alias()

    def _condition(self) -> Fragment | None:
        return self._expression_fragment() if self.accept("WHERE") else None

    def _assignment_list(self) -> tuple[Assignment, ...]:
        return self.comma_separated(self._set)

    def _set(self) -> Assignment:
        column = self.names()
        if not self.accept("=="):
            self.expect("=")
        start = self.index
        value = self.expression()
        return Assignment(column, None if is_default(value) else self.fragment(value, start))

    def _update(self) -> Update:
        target, alias = self._target()
        self.expect("SET")
        assignments = self._assignment_list()
        return Update(target, assignments, alias, self._condition())

    def _merge(self) -> Merge:
        if self.at("WITH", "SCHEMA", "EVOLUTION"):
            self.fail("MERGE WITH SCHEMA EVOLUTION is not supported")
        self.expect("INTO")
        target, alias = self._target()
        self.expect("USING")
        start = self.index
        relation = self._primary_relation(False)
        source = self.fragment(relation, start)
        self.expect("ON")
        on = self._expression_fragment()
        matched: list[UpdateClause | DeleteClause] = []
        not_matched: list[InsertClause] = []
        by_source: list[UpdateClause | DeleteClause] = []
        while self.accept("WHEN"):
            if self.accept("MATCHED"):
                matched.append(self._matched_clause(by_source=False))
            elif self.accept("NOT", "MATCHED", "BY", "SOURCE"):
                by_source.append(self._matched_clause(by_source=True))
            elif self.accept("NOT", "MATCHED"):
                self.accept("BY", "TARGET")
                not_matched.append(self._insert_clause())
            else:
                self.fail("expected MATCHED or NOT MATCHED")
        if not (matched or not_matched or by_source):
            self.fail("expected WHEN")
        return Merge(
            target, source, alias_of(relation), on, alias, tuple(matched), tuple(not_matched), tuple(by_source)
        )

    def _clause_condition(self) -> Fragment | None:
        condition = self._expression_fragment() if self.accept("AND") else None
        self.expect("THEN")
        return condition

    def _matched_clause(self, by_source: bool) -> UpdateClause | DeleteClause:
        condition = self._clause_condition()
        if self.accept("DELETE"):
            return DeleteClause(condition)
        self.expect("UPDATE", "SET")
        if not by_source and self.accept("*"):
            return UpdateClause(condition, None)
        return UpdateClause(condition, self._assignment_list())

    def _insert_clause(self) -> InsertClause:
        condition = self._clause_condition()
        self.expect("INSERT")
        if self.accept("*"):
            return InsertClause(condition, None)
        columns = self.in_parentheses(lambda: self.comma_separated(self.names))
        self.expect("VALUES")
        values = self.in_parentheses(lambda: self.comma_separated(self._inserted_value))
        if len(columns) != len(values):
            self.fail(f"{len(columns)} columns are named and {len(values)} values given", self.index - 1)
        return InsertClause(condition, tuple(map(Assignment, columns, values)))

    def _inserted_value(self) -> Fragment | None:
        start = self.index
        value = self.expression()
        return None if is_default(value) else self.fragment(value, start)


def is_default(value: Expr) -> bool:
    """The word DEFAULT in place of a value."""
    return isinstance(value, Name) and len(value.parts) == 1 and value.parts[0].upper() == "DEFAULT"


def alias_of(relation: FromItem) -> str | None:
    """The name a FROM item goes by."""
    if isinstance(relation, Table):
        return relation.alias or relation.parts[-1]
    if isinstance(relation, Derived | Renamed | InlineTable | TableCall):
        return relation.alias
    return None
