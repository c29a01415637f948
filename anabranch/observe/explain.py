"""Why and how a stream table is refreshed: query, kernel plan, delta plan, what is read, the mode and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from anabranch.algebra.relation import Relation
from anabranch.algebra.show import show
from anabranch.compile import Program
from anabranch.definitions import StreamTable
from anabranch.delta.choose import notes_of
from anabranch.delta.state import delta, guarded_delta, moving_tables
from anabranch.engine import Engine
from anabranch.graph.dag import tree_lines
from anabranch.observe.forecast import next_decision, next_tick
from anabranch.observe.reasons import reason_of
from anabranch.pinned import Pinned

LAST_REFRESHES = 5
LOOKED_AT = 1000


@dataclass(frozen=True)
class Explanation:
    """Sections of text by title, in order. Prints as plain text; deterministic, so it can be compared and pasted."""

    name: str
    sections: tuple[tuple[str, str], ...]

    def __getitem__(self, title: str) -> str:
        for each, text in self.sections:
            if each == title:
                return text
        raise KeyError(f"{title!r} is not among {', '.join(each for each, _ in self.sections)}")

    def __str__(self) -> str:
        return "\n\n".join(f"{title}\n{_indented(text)}" for title, text in self.sections)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{escape(title)}</h4><pre>{escape(text)}</pre>" for title, text in self.sections)


def explain(engine: Engine, name: str | None = None, query: str | None = None, quick: bool = False) -> Explanation:
    """Explain a stream table, or a query before it is made one; `quick` tells what is stored and starts no Spark."""
    pinned = engine.pin()
    if query is not None:
        with engine.lock:
            program = engine.compile(query, pinned)
        return Explanation(name or "query", (("query", query.strip()), *_compiled(pinned, program)))
    if name is None:
        raise TypeError("explain takes the name of a stream table, or query=...")
    node = pinned.node(name)
    if quick:
        return Explanation(node.name, tuple(_stored(engine, pinned, node)))
    program = engine.program(node, pinned)
    sections = [
        ("query", node.query.strip()),
        *_compiled(pinned, program),
        ("computed from", "\n".join(tree_lines(pinned.graph.tree(node.id), pinned.graph.names))),
        ("reads", _reads(pinned, node)),
        ("last refreshes", _last(engine, node) or "none is kept"),
        ("next tick", next_tick(engine, pinned, node, program)),
        *_advice(engine, node),
    ]
    return Explanation(node.name, tuple(sections))


def _stored(engine: Engine, pinned: Pinned, node: StreamTable) -> list[tuple[str, str]]:
    """What needs no plan: the definition, what it is computed from, and what the last and the next tick do with it."""
    condition = pinned.conditions[node.id]
    sections = [
        ("query", node.query.strip()),
        ("schema", "\n".join(f"{each.name} {each.type}" for each in node.columns)),
        ("refresh mode", f"{node.refresh_mode}, schedule {node.schedule or 'none: by hand'}"),
        ("computed from", "\n".join(tree_lines(pinned.graph.tree(node.id), pinned.graph.names))),
        ("reads", _reads(pinned, node)),
        ("last refreshes", _last(engine, node) or "none is kept"),
        ("next tick", next_decision(engine, pinned, node)),
        *_advice(engine, node),
    ]
    if condition.last_error:
        sections.append(("error", "\n".join(filter(None, condition.last_error.values()))))
    return sections


def _last(engine: Engine, node: StreamTable) -> str:
    """Its newest lines of history."""
    rows = _history(engine, node)[:LAST_REFRESHES]
    return "\n".join(
        f"snapshot {row['snapshot']}: {row['action']} +{row['rows_inserted']} -{row['rows_deleted']}  {row['reason']}"
        for row in rows
    )


def _history(engine: Engine, node: StreamTable) -> list[dict[str, Any]]:
    return [row for row in engine.store.history(LOOKED_AT).to_pylist() if row["node_id"] == node.id]


def _advice(engine: Engine, node: StreamTable) -> list[tuple[str, str]]:
    """What the last reason means, and what to do about it."""
    rows = _history(engine, node)
    found = reason_of(rows[0]["reason"]) if rows else None
    if found is None or not found.advice:
        return []
    return [(f"about {found.code}", f"{found.meaning}\nwhat to do: {found.advice}")]


def _compiled(pinned: Pinned, program: Program) -> list[tuple[str, str]]:
    schema = "\n".join(f"{each.name} {each.type}" for each in program.columns)
    sections = [("schema", schema), ("mode", _mode(program))]
    if program.notes:
        sections.append(("settled", "\n".join(program.notes)))
    if program.kernel is None:
        return sections
    sections.append(("kernel plan", _named(pinned, program.kernel)))
    sections.append(("strategy", "\n".join(notes_of(program.parts))))
    return [*sections, *_delta_plans(pinned, program)]


def _mode(program: Program) -> str:
    if program.is_differential:
        return "DIFFERENTIAL"
    lines = [f"{each.construct}: {each.reason}. {each.hint}".strip() for each in program.refusals]
    return "FULL, compared with what is stored\n" + "\n".join(f"NOT_DIFFERENTIABLE: {line}" for line in lines)


def _delta_plans(pinned: Pinned, program: Program) -> list[tuple[str, str]]:
    """For each source alone and for all together: a term of a source that did not change is not there at all."""
    sources = sorted(program.tables, key=pinned.name_of)
    cases = [(f"when {pinned.name_of(each)} changes", frozenset({each})) for each in sources]
    if len(sources) > 1:
        cases.append(("when all change", frozenset(sources)))
    sections = []
    for title, changed in cases:
        moving = moving_tables(program.parts, changed)
        plans = []
        for part in program.parts:
            guarded = guarded_delta(part, moving)
            plan = delta(part, moving) if guarded is None else guarded.change
            if plan is not None:
                plans.append((f"part {part.name}:\n" if part.name else "") + _named(pinned, plan))
        sections.append((f"delta plan {title}", "\n".join(plans)))
    return sections


def _named(pinned: Pinned, plan: Relation) -> str:
    """Plan text with the names of tables in place of their ids."""
    text = show(plan)
    for table in (*pinned.sources, *pinned.nodes):
        text = text.replace(table, pinned.name_of(table))
    return text


def _reads(pinned: Pinned, node: StreamTable) -> str:
    frontier = pinned.frontiers[node.id]
    lines = [f"{pinned.name_of(table)} was last read at snapshot {at}" for table, at in sorted(frontier.inputs.items())]
    return "\n".join(lines) or "nothing"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
