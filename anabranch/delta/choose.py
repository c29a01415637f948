"""What a kernel plan allows: whether it is differential at all, how each part moves, what is read as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.algebra.holes import expressions
from anabranch.algebra.relation import Relation, iterate
from anabranch.delta.face import peel
from anabranch.delta.parts import Part, Strategy
from anabranch.delta.reads import describe, unrestricted_reads
from anabranch.delta.state import delta, guarded_delta, moving_tables
from anabranch.delta.versions import tables_of
from anabranch.sql.refused import REFUSED, Refusal

EXPLANATIONS: dict[Strategy, str] = {
    Strategy.LINEAR: "the change is worked out from the changes of its inputs",
    Strategy.MERGE: "stored counts, sums and extremes are merged with those of the change",
    Strategy.KEYED: "the groups that the change touches are worked out anew",
    Strategy.TOP: "the best rows and some more are kept and move with the change",
    Strategy.RECOMPUTE: "everything is worked out anew and compared with what is stored",
}


def refusals_of(kernel: Relation) -> tuple[Refusal, ...]:
    """Why the plan cannot be kept differentially; empty where it can."""
    random = dict.fromkeys(
        str(each) for relation in iterate(kernel) for each in expressions(relation) if not each.deterministic
    )
    entry = REFUSED["NONDETERMINISTIC_FUNCTION"]
    return tuple(replace(entry, construct=f"{entry.construct}: {text}") for text in random)


def describe_part(part: Part) -> str:
    """One line for explain: what is stored and how it moves."""
    core = describe(peel(part.relation)[0])
    name = f"part {part.name}" if part.name else "the table itself"
    by = f" by {', '.join(part.keys)}" if part.keys and part.strategy is Strategy.KEYED else ""
    return f"{name} ({core}), {part.strategy.name}: {EXPLANATIONS[part.strategy]}{by}"


def notes_of(parts: Sequence[Part]) -> tuple[str, ...]:
    """For explain: how each part moves, and what a change of every table would read as a whole."""
    sources = frozenset[str]().union(*(tables_of(part.relation) for part in parts))
    moving = moving_tables(parts, sources)
    lines: list[str] = []
    for part in parts:
        lines.append(describe_part(part))
        guarded = guarded_delta(part, moving)
        plan = delta(part, moving) if guarded is None else guarded.change
        lines += [] if plan is None else unrestricted_reads(plan)
    return tuple(dict.fromkeys(lines))
