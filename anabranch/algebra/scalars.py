"""Scalar SQL in plain Python: from a parsed expression to a function of the values in its holes.

Three-valued logic throughout: NULL is None, and a comparison with NULL is None. Only the small language that plans are
tested with is known here; Spark is what evaluates expressions in production.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from sqlglot import exp

from anabranch.algebra.values import Double, EvaluationError, Row, Value, equal, less, order_key, same

HOLE_PREFIX = "__hole_"

Function = Callable[[Row], Value]
Special = Callable[[exp.Expr], Function | None]


def compile_scalar(node: exp.Expr, special: Special = lambda _: None) -> Function:
    """The expression as a function of its holes; `special` may take over a node (aggregates, window functions)."""
    taken = special(node)
    if taken is not None:
        return taken

    def inner(child: exp.Expr) -> Function:
        return compile_scalar(child, special)

    builder = _BUILDERS.get(type(node))
    if builder is not None:
        return builder(node, inner)
    name = _function_name(node)
    if name in _CALLS:
        return _strict(_CALLS[name], [inner(each) for each in arguments_of(node)])
    raise NotImplementedError(f"{node.sql('spark')} ({type(node).__name__}) is not known to the interpreter")


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a function call in the order they were written."""
    found: list[exp.Expr] = []
    for value in node.args.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, exp.Expr):
                found.append(each)
    return found


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return type(node).__name__.lower()


Inner = Callable[[exp.Expr], Function]


def _strict(function: Callable[..., Value], arguments: Sequence[Function]) -> Function:
    """A function that is NULL where an argument is NULL."""
    if len(arguments) == 2:
        first, second = arguments

        def two(holes: Row) -> Value:
            left = first(holes)
            right = second(holes)
            return None if left is None or right is None else function(left, right)

        return two

    def call(holes: Row) -> Value:
        values = [each(holes) for each in arguments]
        return None if any(each is None for each in values) else function(*values)

    return call


def number(value: Value) -> Value:
    """A float result as a `Double`; other numbers as they are."""
    return Double(value) if type(value) is float else value


def _arithmetic(function: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    def apply(left: Value, right: Value) -> Value:
        if isinstance(left, float) or isinstance(right, float):
            return Double(function(float(left), float(right)))
        return function(left, right)

    return apply


def _divide(left: Value, right: Value) -> Value:
    if not right:
        raise EvaluationError("DIVIDE_BY_ZERO")
    return left / right if isinstance(left, Decimal) and isinstance(right, Decimal) else Double(left / right)


def _truncating_division(left: Value, right: Value) -> Value:
    if not right:
        raise EvaluationError("DIVIDE_BY_ZERO")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Value, right: Value) -> Value:
    return number(left - right * _truncating_division(left, right))


def _column(node: exp.Expr, inner: Inner) -> Function:
    name = str(node.name)
    if not name.startswith(HOLE_PREFIX) or node.args.get("table"):
        raise NotImplementedError(f"{node.sql('spark')} is not a hole of the expression")
    return operator.itemgetter(int(name.removeprefix(HOLE_PREFIX)))


def _constant(value: Value) -> Function:
    return lambda holes: value


def _literal(node: exp.Expr, inner: Inner) -> Function:
    text = str(node.this)
    if node.is_string:
        return _constant(text)
    if "e" in text.lower():
        return _constant(Double(text))
    return _constant(Decimal(text) if "." in text else int(text))


def _and(node: exp.Expr, inner: Inner) -> Function:
    left, right = inner(node.this), inner(node.expression)

    def conjunction(holes: Row) -> Value:
        first = left(holes)
        if first is False:
            return False
        second = right(holes)
        return False if second is False else (None if first is None or second is None else True)

    return conjunction


def _or(node: exp.Expr, inner: Inner) -> Function:
    left, right = inner(node.this), inner(node.expression)

    def disjunction(holes: Row) -> Value:
        first = left(holes)
        if first is True:
            return True
        second = right(holes)
        return True if second is True else (None if first is None or second is None else False)

    return disjunction


def _is(node: exp.Expr, inner: Inner) -> Function:
    value, wanted = inner(node.this), inner(node.expression)
    return lambda holes: same(value(holes), wanted(holes))


def _case(node: exp.Expr, inner: Inner) -> Function:
    operand = inner(node.this) if node.this is not None else None
    branches = [(inner(each.this), inner(each.args["true"])) for each in node.args["ifs"]]
    default = inner(node.args["default"]) if node.args.get("default") is not None else _constant(None)

    def choose(holes: Row) -> Value:
        for condition, result in branches:
            taken = condition(holes) if operand is None else equal(operand(holes), condition(holes))
            if taken is True:
                return result(holes)
        return default(holes)

    return choose


def _if(node: exp.Expr, inner: Inner) -> Function:
    condition, yes = inner(node.this), inner(node.args["true"])
    no = inner(node.args["false"]) if node.args.get("false") is not None else _constant(None)
    return lambda holes: yes(holes) if condition(holes) is True else no(holes)


def _in(node: exp.Expr, inner: Inner) -> Function:
    value, items = inner(node.this), [inner(each) for each in node.expressions]

    def member(holes: Row) -> Value:
        wanted = value(holes)
        found = [equal(wanted, each(holes)) for each in items]
        return True if True in found else (None if None in found else False)

    return member


def _between(node: exp.Expr, inner: Inner) -> Function:
    bounds = exp.And(
        this=exp.GTE(this=node.this.copy(), expression=node.args["low"].copy()),
        expression=exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()),
    )
    return inner(bounds)


def _coalesce(node: exp.Expr, inner: Inner) -> Function:
    options = [inner(each) for each in arguments_of(node)]
    return lambda holes: next((value for each in options if (value := each(holes)) is not None), None)


def _nullif(node: exp.Expr, inner: Inner) -> Function:
    value, unwanted = inner(node.this), inner(node.expression)
    return lambda holes: None if equal(value(holes), unwanted(holes)) is True else value(holes)


def _extreme(choose: Callable[..., Value]) -> Callable[[exp.Expr, Inner], Function]:
    def build(node: exp.Expr, inner: Inner) -> Function:
        options = [inner(node.this), *(inner(each) for each in node.expressions)]

        def pick(holes: Row) -> Value:
            present = [value for each in options if (value := each(holes)) is not None]
            return choose(present, key=order_key) if present else None

        return pick

    return build


def _tuple(node: exp.Expr, inner: Inner) -> Function:
    items = [inner(each.expression if isinstance(each, exp.PropertyEQ) else each) for each in node.expressions]
    return lambda holes: tuple(each(holes) for each in items)


def _bracket(node: exp.Expr, inner: Inner) -> Function:
    offset = int(node.args.get("offset") or 0)

    def item(values: Row, index: int) -> Value:
        return values[index - offset] if 0 <= index - offset < len(values) else None

    return _strict(item, [inner(node.this), inner(node.expressions[0])])


def _cast(node: exp.Expr, inner: Inner) -> Function:
    value, target = inner(node.this), node.args["to"]
    convert = _CASTS.get(target.this)
    if convert is None:
        raise NotImplementedError(f"{node.sql('spark')}: this cast is not known to the interpreter")
    scale = int(target.expressions[1].name) if len(target.expressions) > 1 else 0
    return lambda holes: None if (given := value(holes)) is None else convert(given, scale)


def _integer(value: Value, scale: int) -> Value:
    try:
        return int(value)
    except ValueError as problem:
        raise EvaluationError("CAST_INVALID_INPUT") from problem


def _decimal(value: Value, scale: int) -> Value:
    return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def _string(value: Value, scale: int) -> Value:
    return str(value).lower() if isinstance(value, bool) else str(value)


_CASTS: dict[Any, Callable[[Value, int], Value]] = {
    **dict.fromkeys((exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT), _integer),
    **dict.fromkeys((exp.DType.TEXT, exp.DType.VARCHAR), _string),
    **dict.fromkeys((exp.DType.DOUBLE, exp.DType.FLOAT), lambda value, scale: Double(value)),
    exp.DType.DECIMAL: _decimal,
    exp.DType.BOOLEAN: lambda value, scale: bool(value),
    exp.DType.ARRAY: lambda value, scale: value,
}


def _raise_error(message: Value) -> Value:
    raise EvaluationError(message)


def _not_less(left: Value, right: Value) -> Value:
    return not less(left, right)


def _assert_true(node: exp.Expr, inner: Inner) -> Function:
    condition = inner(node.expressions[0])

    def check(holes: Row) -> Value:
        if condition(holes) is not True:
            raise EvaluationError("ASSERT_TRUE")

    return check


def _array_repeat(node: exp.Expr, inner: Inner) -> Function:
    """A repeated NULL is an array of NULLs; only a NULL count makes no array."""
    value, count = (inner(each) for each in node.expressions)
    return lambda holes: None if (times := count(holes)) is None else (value(holes),) * max(times, 0)


def _anonymous(node: exp.Expr, inner: Inner) -> Function:
    name = str(node.name).lower()
    values = [inner(each) for each in node.expressions]
    if name == "assert_true":
        return _assert_true(node, inner)
    if name == "array_repeat":
        return _array_repeat(node, inner)
    if name in ("isnull", "isnotnull"):
        return lambda holes: (values[0](holes) is None) == (name == "isnull")
    if name in _CALLS:
        return _strict(_CALLS[name], values)
    raise NotImplementedError(f"{node.sql('spark')} is not known to the interpreter")


def _binary(function: Callable[[Value, Value], Value]) -> Callable[[exp.Expr, Inner], Function]:
    return lambda node, inner: _strict(function, [inner(node.this), inner(node.expression)])


def _negation(node: exp.Expr, inner: Inner) -> Function:
    value = inner(node.this)
    return lambda holes: None if (given := value(holes)) is None else not given


def _array_sort(node: exp.Expr, inner: Inner) -> Function:
    values = inner(node.this)
    return lambda holes: None if (given := values(holes)) is None else tuple(sorted(given, key=order_key))


_BUILDERS: dict[type[exp.Expr], Callable[[exp.Expr, Inner], Function]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, inner: _constant(bool(node.this)),
    exp.Null: lambda node, inner: _constant(None),
    exp.Paren: lambda node, inner: inner(node.this),
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _negation,
    exp.EQ: _binary(equal),
    exp.NEQ: _binary(lambda left, right: not equal(left, right)),
    exp.LT: _binary(less),
    exp.GT: _binary(lambda left, right: less(right, left)),
    exp.LTE: _binary(lambda left, right: _not_less(right, left)),
    exp.GTE: _binary(_not_less),
    exp.NullSafeEQ: _is,
    exp.NullSafeNEQ: lambda node, inner: _negation(exp.Not(this=exp.NullSafeEQ(**node.args)), inner),
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    exp.In: _in,
    exp.Between: _between,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Least: _extreme(min),
    exp.Greatest: _extreme(max),
    exp.Array: _tuple,
    exp.Struct: _tuple,
    exp.Bracket: _bracket,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _anonymous,
    exp.Concat: lambda node, inner: _strict(lambda *all: "".join(all), [inner(each) for each in node.expressions]),
    exp.ArraySort: _array_sort,
    exp.Add: _binary(_arithmetic(operator.add)),
    exp.Sub: _binary(_arithmetic(operator.sub)),
    exp.Mul: _binary(_arithmetic(operator.mul)),
    exp.Div: _binary(_divide),
    exp.IntDiv: _binary(_truncating_division),
    exp.Mod: _binary(_remainder),
    exp.DPipe: _binary(operator.add),
}

_CALLS: dict[str, Callable[..., Value]] = {
    "neg": lambda value: number(-value),
    "abs": lambda value: number(abs(value)),
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "arraysize": len,
    "generateseries": lambda first, last: tuple(range(first, last + 1)),
    "raise_error": _raise_error,
}
