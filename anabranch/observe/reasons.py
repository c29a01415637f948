"""Every reason code that a report, the history or explain may give: what it means, and what to do about it.

One table; documentation, explain and tests are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """`actions` names what was done with the stream table when this is the reason."""

    code: str
    actions: str
    meaning: str
    advice: str = ""


REASONS = {
    each.code: each
    for each in (
        Reason("CHANGED", "DIFFERENTIAL", "its inputs changed, and only what that does was worked out"),
        Reason(
            "CHANGE_IS_SMALL", "DIFFERENTIAL", "AUTO, not both ways measured yet: a small share of the inputs changed"
        ),
        Reason("COST_DIFFERENTIAL_CHEAPER", "DIFFERENTIAL", "AUTO: measured to be cheaper than full for so many rows"),
        Reason(
            "KEEPS_OTHERS_FUSED", "DIFFERENTIAL", "AUTO: full would be cheaper here, and dearer for those fused with it"
        ),
        Reason("IMMEDIATE", "DIFFERENTIAL", "refreshed in the commit of a write"),
        Reason("FOREIGN_WRITE", "DIFFERENTIAL", "IMMEDIATE: a write by an outside client was caught up"),
        Reason(
            "EXPLORING",
            "DIFFERENTIAL or FULL",
            "AUTO tries the other way now and then, to keep its estimate fresh",
            "raise auto_explore_every to make it rarer, or set the refresh mode to DIFFERENTIAL",
        ),
        Reason("FIRST_REFRESH", "FULL", "the stream table was just created", "nothing: it happens once"),
        Reason("QUERY_CHANGED", "FULL", "its query was altered", "nothing: what reads it got only the difference"),
        Reason(
            "SOURCE_REPLACED",
            "FULL",
            "a source was dropped and created again: another table of the same name",
            "empty a source with DELETE FROM instead of dropping it",
        ),
        Reason(
            "SOURCE_SCHEMA_CHANGED",
            "FULL",
            "a column it reads was dropped and added again, has another type, or `*` means other columns",
            "name the columns instead of writing *; add columns rather than replacing them",
        ),
        Reason("REFRESH_MODE_FULL", "FULL", "its refresh mode says so", "alter it to AUTO or DIFFERENTIAL"),
        Reason(
            "NOT_DIFFERENTIABLE",
            "FULL",
            "the query holds something that cannot be kept incrementally; the text after the code names it",
            "explain says what and what to write instead; or split the query, so that the rest is differential",
        ),
        Reason(
            "CLOCK_MOVED",
            "FULL",
            "the query reads the date, and another day has begun",
            "compare with the date where the table is read, in a view over it",
        ),
        Reason(
            "COST_FULL_CHEAPER",
            "FULL",
            "AUTO: measured to be cheaper than working out a change of so many rows",
            "refresh more often, so that changes are smaller; or set the refresh mode to DIFFERENTIAL",
        ),
        Reason(
            "CHANGE_TOO_LARGE",
            "FULL",
            "AUTO, not both ways measured yet: a large share of the inputs changed",
            "refresh more often, or raise differential_max_change_ratio",
        ),
        Reason(
            "CHANGE_FEED_EXPIRED",
            "FULL",
            "the snapshots it last read are no longer kept",
            "refresh more often than history_retention, or raise it",
        ),
        Reason(
            "DELTA_RAISED",
            "FULL",
            "the change raised an error although the query itself does not: it pairs rows that never were together",
            "guard the expression, for example with try_divide or nullif",
        ),
        Reason(
            "ROW_NOT_THERE",
            "FULL",
            "a row to be taken away was not there; the table is made again from its inputs",
            "report it with the query: this should not happen",
        ),
        Reason("NO_CHANGES", "NO_DATA", "nothing below it changed; no Spark job was run"),
        Reason("PAUSED", "SKIPPED", "it is paused", "resume it"),
        Reason(
            "SUSPENDED", "SKIPPED", "it failed too often in a row", "mend the cause that status shows, then resume it"
        ),
        Reason("BACKING_OFF", "SKIPPED", "it failed and is tried again later", "mend the cause that status shows"),
        Reason("GATED", "SKIPPED", "it is held by something outside of it"),
        Reason(
            "SOURCE_DROPPED",
            "SKIPPED",
            "a table it reads is no longer there",
            "create the table again, or drop this one",
        ),
        Reason(
            "SOURCE_MISSING", "SKIPPED", "a table it reads is not there", "create the table again, or drop this one"
        ),
        Reason(
            "WAITING_FOR_FRONTIER",
            "SKIPPED",
            "its inputs show different states of a source they share; the text names the input",
            "resume or mend the input that lags behind",
        ),
        Reason("WAITING_FOR_GROUP", "SKIPPED", "its diamond moves when all its scheduled tables are due"),
        Reason("UPSTREAM_FAILED", "SKIPPED", "a table it reads failed in this tick", "mend that one"),
        Reason(
            "FAILED", "FAILED", "its refresh failed and nothing of it was kept", "status shows the error and its hint"
        ),
        Reason("REQUESTED", "next tick", "it was asked for"),
        Reason("DUE", "next tick", "its schedule says so"),
        Reason("MOVES_ALONG", "next tick", "it moves together with another table of its diamond"),
        Reason("NOT_REQUESTED", "next tick", "it was not asked for"),
        Reason("NOT_DUE", "next tick", "its schedule does not say so yet"),
        Reason("MANUAL", "next tick", "it is refreshed only when asked for"),
    )
}


def reason_of(text: str) -> Reason | None:
    """What is known of a reason; the code is its first word."""
    return REASONS.get(text.split(":")[0].split(" ")[0])
