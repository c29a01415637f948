"""The grammar of expressions, after Spark's own (SqlBaseParser.g4): which part is a column, a call, a subquery.

Precedence follows Spark's exactly where it matters to us: what the operands of AND, OR, NOT, `=` and `<=>` are.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.sql.cursor import Cursor
from anabranch.sql.query_syntax import Query
from anabranch.sql.syntax import (
    Aliased,
    Call,
    Conjunction,
    Disjunction,
    Equal,
    Expr,
    Lambda,
    Literal,
    Name,
    Nested,
    NestedKind,
    Not,
    Opaque,
    Paren,
    Row,
    SortItem,
    Star,
)
from anabranch.sql.tokens import Kind

COMPARISONS = ("=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=")
LEVELS: tuple[tuple[str, ...], ...] = (
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>", ">>>"),
    ("+", "-", "||"),
    ("*", "/", "%", "DIV"),
)
QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
PREDICATES = ("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP")
INTERVAL_UNITS = frozenset(
    unit + plural
    for unit in (
        *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE"),
        *("SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND"),
    )
    for plural in ("", "S")
)
NOT_A_PRIMARY = frozenset(
    (
        *("AND", "AS", "BETWEEN", "ELSE", "END", "FROM", "GROUP", "HAVING", "IN", "INTERSECT", "IS", "JOIN", "LIKE"),
        *("ILIKE", "ON", "OR", "ORDER", "RLIKE", "THEN", "UNION", "USING", "WHEN", "WHERE"),
    )
)

AFTER_A_NAME = frozenset(
    (
        *("(", ".", ",", ")", "[", "]", "::", ":", "+", "-", "*", "/", "%", "||", "&", "|", "^", *COMPARISONS),
        *("AND", "AS", "ASC", "BETWEEN", "DESC", "DIV", "ELSE", "END", "FROM", "GROUP", "HAVING", "ILIKE", "IN", "IS"),
        *("LIKE", "LIMIT", "NOT", "NULLS", "OR", "ORDER", "QUALIFY", "RLIKE", "THEN", "UNION", "WHEN", "WHERE"),
    )
)
"""What may follow a column whose name is a keyword."""


class ExpressionGrammar(Cursor):
    """Recursive descent; each method consumes one rule and returns its node."""

    def query(self) -> Query:
        raise NotImplementedError

    def call(self, start: int, name: tuple[str, ...]) -> Expr:
        raise NotImplementedError

    def expression(self) -> Expr:
        start = self.index
        operands = self._joined_by("OR", self._conjunction)
        return operands[0] if len(operands) == 1 else Disjunction(start, self.index, operands)

    def _conjunction(self) -> Expr:
        start = self.index
        operands = self._joined_by("AND", self._negation)
        return operands[0] if len(operands) == 1 else Conjunction(start, self.index, operands)

    def _joined_by(self, word: str, rule: Callable[[], Expr]) -> tuple[Expr, ...]:
        operands = [rule()]
        while self.accept(word):
            operands.append(rule())
        return tuple(operands)

    def _negation(self) -> Expr:
        start = self.index
        if self.accept("NOT") or self.accept("!"):
            operand = self._negation()
            return Not(start, self.index, operand)
        if self.at("EXISTS", "(") and self.query_ahead(2):
            self.index += 2
            query = self.query()
            self.expect(")")
            return Nested(start, self.index, NestedKind.EXISTS, query)
        return self._predicated()

    def _predicated(self) -> Expr:
        start, value = self.index, self.value()
        while (predicate := self._predicate(start, value)) is not None:
            value = predicate
        return value

    def _predicate(self, start: int, value: Expr) -> Expr | None:
        if self.accept("IS"):
            return self._is(start, value)
        negated = self.at_any(("NOT", "!")) and self.at_any(PREDICATES, 1)
        self.index += negated
        if self.accept("BETWEEN"):
            low = self.value()
            self.expect("AND")
            high = self.value()
            return Opaque(start, self.index, (value, low, high))
        if self.accept("IN"):
            return self._in(start, value, negated)
        if self.accept("LIKE") or self.accept("ILIKE"):
            return self._like(start, value)
        if self.accept("RLIKE") or self.accept("REGEXP"):
            pattern = self.value()
            return Opaque(start, self.index, (value, pattern))
        return None

    def _is(self, start: int, value: Expr) -> Expr:
        negated = self.accept("NOT")
        if not self.accept("DISTINCT", "FROM"):
            self.name()
            return Opaque(start, self.index, (value,))
        other = self.value()
        if negated:
            return Equal(start, self.index, value, other, True)
        return Opaque(start, self.index, (value, other))

    def _in(self, start: int, value: Expr, negated: bool) -> Expr:
        if self.at("(") and self.query_ahead(1) and (found := self.attempt(self._query_in_parentheses)) is not None:
            probe = value.items if isinstance(value, Row) else (value,)
            return Nested(start, self.index, NestedKind.IN, found, probe, negated)
        options = self.in_parentheses(lambda: self.comma_separated(self.expression))
        return Opaque(start, self.index, (value, *options))

    def _like(self, start: int, value: Expr) -> Expr:
        if self.at_any(("ANY", "SOME", "ALL")) and self.at("(", ahead=1):
            self.index += 1
            patterns = self.in_parentheses(lambda: self.comma_separated(self.expression))
            return Opaque(start, self.index, (value, *patterns))
        parts = [value, self.value()]
        if self.accept("ESCAPE"):
            parts.append(self.value())
        return Opaque(start, self.index, tuple(parts))

    def value(self) -> Expr:
        """An expression without AND, OR, NOT and predicates: arithmetic and comparisons."""
        start, left = self.index, self._level(0)
        while self.at_any(COMPARISONS):
            operator = self.token().upper
            self.index += 1
            right = self._level(0)
            if operator in ("=", "==", "<=>"):
                left = Equal(start, self.index, left, right, operator == "<=>")
            else:
                left = Opaque(start, self.index, (left, right))
        return left

    def _level(self, level: int) -> Expr:
        if level == len(LEVELS):
            return self._unary()
        start, left = self.index, self._level(level + 1)
        while (width := self._operator_width(LEVELS[level])) > 0:
            self.index += width
            right = self._level(level + 1)
            left = Opaque(start, self.index, (left, right))
        return left

    def _operator_width(self, operators: tuple[str, ...]) -> int:
        """How many tokens the operator takes here, 0 if there is none: `>>` comes as two tokens."""
        for operator in sorted(operators, key=len, reverse=True):
            if self.at(operator):
                return 1
            if operator[0] in "<>" and self.at(*operator) and self._adjacent(len(operator)):
                return len(operator)
        return 0

    def _adjacent(self, count: int) -> bool:
        return not any(self.source.gap_before(self.index + step) for step in range(1, count))

    def _unary(self) -> Expr:
        start = self.index
        if self.at_any(("-", "+", "~")):
            self.index += 1
            operand = self._unary()
            return Opaque(start, self.index, (operand,))
        return self._postfix(start, self._primary())

    def _postfix(self, start: int, value: Expr) -> Expr:
        while True:
            if self.accept("["):
                place = self.expression()
                self.expect("]")
                value = Opaque(start, self.index, (value, place))
            elif self.at(".") and self.at_name(1):
                self.index += 2
                value = Opaque(start, self.index, (value,))
            elif self.at(".", "*"):
                self.fail("a star after an expression is not understood")
            elif self.accept("::"):
                self.type()
                value = Opaque(start, self.index, (value,))
            elif self.accept("COLLATE"):
                self.names()
                value = Opaque(start, self.index, (value,))
            elif (
                self.at(":")
                and isinstance(value, Name | Opaque | Call | Paren)
                and (self.at_name(1) or self.at("[", ahead=1))
            ):
                self.index += 1
                self._variant_path()
                value = Opaque(start, self.index, (value,))
            else:
                return value

    def _variant_path(self) -> None:
        if not self.at("["):
            self.name()
        while True:
            if self.accept("["):
                self.index += 1
                self.expect("]")
            elif self.at(".") and self.at_name(1):
                self.index += 2
            else:
                return

    def _primary(self) -> Expr:
        start, token = self.index, self.token()
        match token.kind:
            case Kind.NUMBER:
                self.index += 1
                return Literal(start, self.index, int(token.text) if token.text.isdigit() else None)
            case Kind.STRING:
                self.index += 1
                while self.token().kind is Kind.STRING:
                    self.index += 1
                return Literal(start, self.index, token.text if self.index == start + 1 else None)
            case Kind.WORD | Kind.QUOTED:
                return self._word(start)
            case _:
                return self._symbol(start)

    def _symbol(self, start: int) -> Expr:
        if self.at("("):
            return self._parenthesis(start)
        if self.accept("*"):
            excluded = self._excluded()
            return Star(start, self.index, (), excluded)
        if not (self.at(".") and self.token(1).kind is Kind.NUMBER):
            self.fail("expected an expression")
        self.index += 2
        return Literal(start, self.index)

    def _excluded(self) -> tuple[tuple[str, ...], ...]:
        if self.at("EXCEPT", "(") and not self.query_ahead(2):
            self.index += 1
            return self.in_parentheses(lambda: self.comma_separated(self.names))
        return ()

    def _parenthesis(self, start: int) -> Expr:
        if (parameters := self.attempt(self._lambda_head)) is not None:
            return self._lambda(start, parameters)
        if self.query_ahead(1) and (query := self.attempt(self._query_in_parentheses)) is not None:
            return Nested(start, self.index, NestedKind.SCALAR, query)
        self.expect("(")
        items = self.comma_separated(self.named_value)
        self.expect(")")
        if len(items) == 1 and not isinstance(items[0], Aliased):
            return Paren(start, self.index, items[0])
        return Row(start, self.index, items)

    def _query_in_parentheses(self) -> Query:
        return self.in_parentheses(self.query)

    def _lambda_head(self) -> tuple[str, ...]:
        parameters = self.name_list()
        self.expect("->")
        return parameters

    def _lambda(self, start: int, parameters: tuple[str, ...]) -> Expr:
        body = self.expression()
        return Lambda(start, self.index, parameters, body)

    def query_ahead(self, ahead: int) -> bool:
        """Whether a query may start so many tokens ahead, behind any number of parentheses."""
        while self.at("(", ahead=ahead):
            ahead += 1
        if not self.at_any(QUERY_STARTS, ahead):
            return False
        following = self.token(ahead + 1)
        if following.upper in ("+", "-") and following.kind is not Kind.STRING:
            return self.at("SELECT", ahead=ahead)
        return following.upper not in (",", ")", ".", "=") or following.kind is Kind.STRING

    def _word(self, start: int) -> Expr:
        token = self.token()
        quoted = token.kind is Kind.QUOTED
        if not quoted:
            if token.upper == "CASE":
                return self._case(start)
            if token.upper == "INTERVAL" and self._interval_ahead():
                return self._interval(start)
            if self.token(1).kind is Kind.STRING and not self.at_any(NOT_A_PRIMARY):
                self.index += 2
                return Opaque(start, self.index)
            if token.upper in ("TRUE", "FALSE", "NULL") and not self.at("(", ahead=1) and not self.at(".", ahead=1):
                self.index += 1
                return Literal(start, self.index)
            if token.upper in NOT_A_PRIMARY and not self._is_name():
                self.fail("expected an expression")
        if self.at("->", ahead=1):
            self.index += 2
            return self._lambda(start, (token.text,))
        parts = [self.name()]
        while self.at(".") and self.at_name(1):
            self.index += 1
            parts.append(self.name())
        if self.at(".", "*"):
            self.index += 2
            excluded = self._excluded()
            return Star(start, self.index, tuple(parts), excluded)
        if self.at("("):
            return self.call(start, tuple(parts))
        return Name(start, self.index, tuple(parts))

    def _is_name(self) -> bool:
        """Whether a keyword is a column's name here: it is called, has fields, or ends an operand."""
        following = self.token(1)
        return following.kind is Kind.END or following.upper in AFTER_A_NAME

    def _case(self, start: int) -> Expr:
        self.expect("CASE")
        parts: list[Expr] = []
        if not self.at("WHEN"):
            parts.append(self.expression())
        while self.accept("WHEN"):
            parts.append(self.expression())
            self.expect("THEN")
            parts.append(self.expression())
        if self.accept("ELSE"):
            parts.append(self.expression())
        self.expect("END")
        return Opaque(start, self.index, tuple(parts))

    def _interval_ahead(self) -> bool:
        ahead = 2 if self.at_any(("+", "-"), 1) else 1
        return self.token(ahead).kind in (Kind.NUMBER, Kind.STRING)

    def _interval(self, start: int) -> Expr:
        self.index += 1
        while self._interval_value():
            if self.at_any(INTERVAL_UNITS):
                self.index += 1
                if self.at("TO") and self.at_any(INTERVAL_UNITS, 1):
                    self.index += 2
        return Opaque(start, self.index)

    def _interval_value(self) -> bool:
        ahead = 1 if self.at_any(("+", "-")) else 0
        first = self.source.tokens[self.index - 1].upper == "INTERVAL"
        followed = self.at_any(INTERVAL_UNITS, ahead + 1)
        if self.token(ahead).kind in (Kind.NUMBER, Kind.STRING) and (first or followed):
            self.index += ahead + 1
            return True
        return False

    def named_value(self) -> Expr:
        """`value AS name` as in struct(...), or a value."""
        start, value = self.index, self.expression()
        if self.accept("AS"):
            name = self.name()
            return Aliased(start, self.index, value, name)
        return value

    def sort_item(self) -> SortItem:
        value = self.expression()
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        nulls_first = not descending
        if self.accept("NULLS", "FIRST"):
            nulls_first = True
        elif self.accept("NULLS", "LAST"):
            nulls_first = False
        return SortItem(value, descending, nulls_first)
