"""What is declined under DIFFERENTIAL, and runs in full under AUTO with the reason given here. One table."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Refusal:
    """A construct that cannot be kept incrementally: why, and what to do instead. `place` is where in the query."""

    construct: str
    code: str
    reason: str
    hint: str
    place: str = ""


REFUSED: dict[str, Refusal] = {
    each.code: each
    for each in (
        Refusal(
            "LIMIT without ORDER BY",
            "LIMIT_WITHOUT_ORDER",
            "which rows are kept is left to chance, so there is no one answer to keep fresh",
            "add ORDER BY",
        ),
        Refusal(
            "TABLESAMPLE",
            "TABLESAMPLE",
            "a sample is drawn anew each time, so there is no one answer to keep fresh",
            "filter by a hash of a key, for example WHERE hash(id) % 100 < 10",
        ),
        Refusal(
            "non-deterministic function",
            "NONDETERMINISTIC_FUNCTION",
            "its value changes from run to run, so a stored row cannot be found again to be replaced",
            "compute the value when the source is written",
        ),
        Refusal(
            "time function",
            "TIME_FUNCTION",
            "its value moves on by itself",
            "compare with the time when the table is read, in a view over it, or use current_date",
        ),
        Refusal(
            "approximate aggregate",
            "APPROXIMATE_AGGREGATE",
            "its value depends on the order in which rows are read",
            "use the exact aggregate, for example percentile instead of percentile_approx",
        ),
        Refusal(
            "time travel",
            "TIME_TRAVEL",
            "a stream table follows the present state of its sources",
            "read the table without VERSION AS OF or TIMESTAMP AS OF",
        ),
        Refusal(
            "session window with a gap that varies by row",
            "SESSION_GAP_VARIES",
            "sessions cannot be told from their neighbours alone",
            "use a constant gap",
        ),
        Refusal(
            "two time windows in one SELECT",
            "SEVERAL_TIME_WINDOWS",
            "Spark allows one window(...) in a SELECT",
            "compute the second in a subquery",
        ),
        Refusal(
            "subquery in an outer join's condition that reads both sides",
            "SUBQUERY_IN_OUTER_JOIN",
            "it would have to be evaluated for every pair of rows",
            "compute the subquery's value on one side first",
        ),
        Refusal(
            "FULL JOIN on a column of the enclosing query",
            "FULL_JOIN_ON_OUTER_COLUMN",
            "Spark 4.2 loses rows of it that have no partner, and what it says counts",
            "join in full first, and compare with the enclosing query's column in WHERE",
        ),
        Refusal(
            "recursion other than anchor UNION ALL step",
            "RECURSION_SHAPE",
            "only rounds of UNION ALL are understood",
            "write the common table expression as anchor UNION ALL step",
        ),
        Refusal(
            "table-valued function that reads a table",
            "TABLE_ARGUMENT",
            "what it does with the rows is not known",
            "write the query without it",
        ),
        Refusal(
            "syntax beyond the translator",
            "SYNTAX_NOT_UNDERSTOOD",
            "Spark accepts the query, but its shape is not understood here",
            "write it more plainly, or use refresh mode FULL",
        ),
        Refusal(
            "name beyond the translator",
            "NAME_NOT_UNDERSTOOD",
            "Spark finds the column, but the rule by which it does is not followed here",
            "qualify the column or give it an alias",
        ),
        Refusal(
            "query that stops the translator",
            "TRANSLATION_FAILED",
            "translating it failed with an error of ours",
            "use refresh mode FULL, and report the query as a defect",
        ),
        Refusal(
            "expression in this position",
            "EXPRESSION_NOT_UNDERSTOOD",
            "Spark accepts it, but how it combines rows is not understood here",
            "move it into a subquery, or use refresh mode FULL",
        ),
    )
}


class RefusedError(Exception):
    """Raised while translating; `translate` turns it into the translation's refusals."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def refused(code: str, detail: str = "", place: str = "") -> RefusedError:
    """The refusal of the table, with what was found in this query."""
    entry = REFUSED[code]
    return RefusedError(
        replace(entry, construct=f"{entry.construct}: {detail}" if detail else entry.construct, place=place)
    )
