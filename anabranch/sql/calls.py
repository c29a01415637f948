"""The grammar of function calls: arguments, special syntaxes, and what may follow the closing parenthesis."""

from __future__ import annotations

from anabranch.sql.expressions import INTERVAL_UNITS, ExpressionGrammar
from anabranch.sql.syntax import Aliased, Call, Expr, Frame, Literal, Nested, NestedKind, Opaque, SortItem, WindowSpec

DATE_UNITS = INTERVAL_UNITS | {"DAYOFYEAR"}
UNIT_FIRST = ("timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff")


class CallGrammar(ExpressionGrammar):
    """Calls. A word in a special syntax (`FROM`, `DAY`) is text; only operands are expressions."""

    def call(self, start: int, name: tuple[str, ...]) -> Expr:
        self.expect("(")
        distinct = False
        arguments: tuple[Expr, ...]
        match name[-1].lower() if len(name) == 1 else "":
            case "cast" | "try_cast":
                operand = self.expression()
                self.expect("AS")
                self.type()
                arguments = (operand,)
            case "extract":
                self.index += 1
                self.expect("FROM")
                arguments = (self.expression(),)
            case "position":
                arguments = self._separated("IN", ",")
            case "substring" | "substr":
                arguments = self._separated("FROM", "FOR", ",")
            case "overlay":
                arguments = self._separated("PLACING", "FROM", "FOR", ",")
            case "trim":
                arguments = self._trim()
            case function if function in UNIT_FIRST and self.at_any(DATE_UNITS) and self.at(",", ahead=1):
                self.index += 2
                arguments = self.comma_separated(self.expression)
            case _:
                distinct = self._distinct()
                arguments = () if self.at(")") else self.comma_separated(self._argument)
        ignore_nulls = self._ignore_nulls()
        self.expect(")")
        if name[-1].lower() in ("cast", "try_cast") and len(name) == 1:
            return Opaque(start, self.index, arguments)
        return self._modified(start, name, arguments, distinct, ignore_nulls)

    def _distinct(self) -> bool:
        if self.at("DISTINCT") and not self.at_any((",", ")"), 1):
            self.index += 1
            return True
        if self.at("ALL") and not self.at_any((",", ")", "."), 1):
            self.index += 1
        return False

    def _argument(self) -> Expr:
        start = self.index
        if self.at_name() and self.at("=>", ahead=1):
            name = self.name()
            self.index += 1
            value = self._table_argument() or self.expression()
            return Aliased(start, self.index, value, name)
        return self._table_argument() or self.named_value()

    def _table_argument(self) -> Expr | None:
        """`TABLE t` or `TABLE (query)` given to a table-valued function."""
        start = self.index
        if self.at("TABLE", "("):
            self.index += 1
            query = self.in_parentheses(self.query)
            return Nested(start, self.index, NestedKind.TABLE, query)
        return None

    def _separated(self, *words: str) -> tuple[Expr, ...]:
        """Operands with words between them; IN is a separator here, so operands stop before it."""
        operands = [self.value() if "IN" in words else self.expression()]
        while any(self.accept(word) for word in words):
            operands.append(self.expression())
        return tuple(operands)

    def _trim(self) -> tuple[Expr, ...]:
        if self.at_any(("BOTH", "LEADING", "TRAILING")) and not self.at_any((",", ")", "."), 1):
            self.index += 1
        if self.accept("FROM"):
            return (self.expression(),)
        return self._separated("FROM", ",")

    def _ignore_nulls(self) -> bool:
        if self.accept("IGNORE", "NULLS"):
            return True
        self.accept("RESPECT", "NULLS")
        return False

    def _modified(
        self, start: int, name: tuple[str, ...], arguments: tuple[Expr, ...], distinct: bool, ignore_nulls: bool
    ) -> Expr:
        closed = self.index
        within: tuple[SortItem, ...] = ()
        condition: Expr | None = None
        if self.at("WITHIN", "GROUP", "(", "ORDER", "BY"):
            self.index += 5
            within = self.comma_separated(self.sort_item)
            self.expect(")")
        if self.at("FILTER", "(", "WHERE"):
            self.index += 3
            condition = self.expression()
            self.expect(")")
        ignore_nulls = self._ignore_nulls() or ignore_nulls
        head = self.index
        over = self.window_spec() if self.accept("OVER") else None
        return Call(start, self.index, name, arguments, closed, head, distinct, within, condition, ignore_nulls, over)

    def window_spec(self) -> WindowSpec:
        """After OVER, or after `WINDOW name AS`."""
        if not self.accept("("):
            return WindowSpec(self.name())
        if self.at_name() and self.at(")", ahead=1):
            name = self.name()
            self.index += 1
            return WindowSpec(name)
        partition: tuple[Expr, ...] = ()
        order: tuple[SortItem, ...] = ()
        if self.accept("CLUSTER", "BY"):
            partition = self.comma_separated(self.expression)
            order = tuple(SortItem(each, False, True) for each in partition)
        elif self.accept("PARTITION", "BY") or self.accept("DISTRIBUTE", "BY"):
            partition = self.comma_separated(self.expression)
        if self.accept("ORDER", "BY") or self.accept("SORT", "BY"):
            order = self.comma_separated(self.sort_item)
        frame = self._frame() if self.at_any(("ROWS", "RANGE")) else None
        self.expect(")")
        return WindowSpec(None, partition, order, frame)

    def _frame(self) -> Frame:
        rows = self.at("ROWS")
        self.index += 1
        start = self.index
        values: list[Expr] = []
        if self.accept("BETWEEN"):
            self._bound(values)
            self.expect("AND")
        self._bound(values)
        return Frame(rows, start, self.index, tuple(values))

    def _bound(self, values: list[Expr]) -> None:
        if self.at("CURRENT", "ROW") or (self.at("UNBOUNDED") and self.at_any(("PRECEDING", "FOLLOWING"), 1)):
            self.index += 2
            return
        value = self.value()
        if not isinstance(value, Literal):
            values.append(value)
        if not (self.accept("PRECEDING") or self.accept("FOLLOWING")):
            self.fail("expected PRECEDING or FOLLOWING")
