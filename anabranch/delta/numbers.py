"""Spark's arithmetic for sums and averages, so that a merged value is the value Spark would have computed.

    SUM of integers       BIGINT           kept as DECIMAL(38,0); the cast back raises where Spark's sum would overflow
    SUM of DECIMAL(p,s)   DECIMAL(p+10,s)  kept as DECIMAL(38,s)
    AVG of integers       DOUBLE           sum / count as DOUBLE
    AVG of DECIMAL(p,s)   DECIMAL(p+4,s+4) sum / count, rounded half up once, at the last digit

Spark's `/` on decimals gives up digits of a wide operand, so an average is taken apart: the whole quotient and the
rest, `(sum - sum % n) / n + (sum % n) / n`, each exact to more digits than the result has.
"""

from __future__ import annotations

import re

from anabranch.algebra.expression import Expression, expression

INTEGERS = ("tinyint", "smallint", "int", "bigint")
WIDEST = 38
WEIGHT_DIGITS = 10


def decimal_of(type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", type)
    return (int(found[1]), int(found[2])) if found else None


def is_mergeable_sum(argument_type: str, result_type: str) -> bool:
    """Whether sums of the type can be kept exactly: weight * value must not lose digits."""
    if argument_type in INTEGERS:
        return result_type == "bigint"
    number = decimal_of(argument_type)
    if number is None or result_type != _decimal(number[0] + 10, number[1]):
        return False
    precision, scale = number
    return precision + WEIGHT_DIGITS + 1 <= WIDEST or scale <= 6


def is_mergeable_average(argument_type: str, result_type: str) -> bool:
    """Whether averages of the type can be taken from a kept sum and count."""
    if argument_type in INTEGERS:
        return result_type == "double"
    number = decimal_of(argument_type)
    if number is None or result_type != _decimal(number[0] + 4, number[1] + 4):
        return False
    precision, scale = number
    fits = scale <= 10 and precision - scale <= WIDEST - 6
    return fits and is_mergeable_sum(argument_type, _decimal(precision + 10, scale))


def sum_type(argument_type: str) -> str:
    """The type in which the sum is kept."""
    number = decimal_of(argument_type)
    return f"decimal({WIDEST},{number[1] if number else 0})"


def summand(value: Expression) -> Expression:
    """The value as it is summed up."""
    return value if decimal_of(value.type) else expression("CAST({} AS decimal(20,0))", "decimal(20,0)", value)


def weighted(value: Expression, weight: Expression) -> Expression:
    """weight * value, in the type of the kept sum."""
    kept = sum_type(value.type)
    return expression(f"CAST({{}} * CAST({{}} AS decimal({WEIGHT_DIGITS},0)) AS {kept})", kept, summand(value), weight)


def final_sum(total: Expression, present: Expression, type: str) -> Expression:
    """SUM: NULL over nothing."""
    return expression(f"CASE WHEN {{}} > 0 THEN CAST({{}} AS {type}) END", type, present, total)


def final_average(total: Expression, present: Expression, argument_type: str, type: str) -> Expression:
    """AVG: NULL over nothing."""
    number = decimal_of(argument_type)
    if number is None:
        quotient = expression("CAST({} AS double) / CAST({} AS double)", "double", total, present)
    else:
        quotient = _average_of_decimals(total, present, number, type)
    return expression("CASE WHEN {} > 0 THEN {} END", type, present, quotient)


def _average_of_decimals(total: Expression, present: Expression, number: tuple[int, int], type: str) -> Expression:
    precision, scale = number
    digits = scale + 4
    sum_text = f"CAST({{}} AS {_decimal(precision + 10, scale)})"
    count_text = "CAST({} AS decimal(20,0))"
    rest_text = f"({sum_text} % {count_text})"
    whole = f"CAST(({sum_text} - {rest_text}) / {count_text} AS decimal({min(precision + 4, WIDEST - 1)},{digits}))"
    part = f"CAST(CAST({rest_text} AS decimal(32,20)) / CAST({{}} AS decimal(12,0)) AS decimal({digits + 1},{digits}))"
    arguments = (total, total, present, present, total, present, present)
    return expression(f"CAST({whole} + {part} AS {type})", type, *arguments)


def _decimal(precision: int, scale: int) -> str:
    return f"decimal({min(precision, WIDEST)},{min(scale, WIDEST)})"
