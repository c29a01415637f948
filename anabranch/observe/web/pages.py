"""The pages as HTML: pure functions of plain values. The template engine escapes everything, without exception."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from anabranch.observe.web import words
from anabranch.observe.web.cards import LABELS, card_of
from anabranch.observe.web.drawing import draw
from anabranch.observe.web.layout import TABLE_HEIGHT, TABLE_WIDTH
from anabranch.observe.web.model import (
    FirstRows,
    FrontierLine,
    HistoryEntry,
    LakeView,
    NodeView,
    Section,
    SourceView,
    TickView,
)
from anabranch.observe.web.timeline import HALF, WIDTH, timeline

RED = ("FAILED", "SUSPENDED")
STAGES = {
    "plan": "pin and decide",
    "compile": "compile and choose",
    "read": "read changes",
    "compute": "work out",
    "commit": "commit",
    "index": "make key indexes",
}


@dataclass(frozen=True)
class Visitor:
    """Who looks: whether buttons work for them, and whether entering a token would make them work."""

    may_act: bool = True
    needs_token: bool = False


def graph_page(view: LakeView, visitor: Visitor) -> str:
    """The whole graph, and the same as a list."""
    drawing = draw(view)
    return _render("graph.html", view, visitor, drawing=drawing, cards=[box.card for box in drawing.boxes])


def node_page(
    view: LakeView,
    visitor: Visitor,
    node: NodeView,
    frontier: Sequence[FrontierLine],
    history: Sequence[HistoryEntry],
) -> str:
    """One stream table."""
    diamonds = [each for each in view.diamonds if node.name in (each.convergence, *each.members)]
    return _render(
        "node.html",
        view,
        visitor,
        node=node,
        card=card_of(node),
        frontier=frontier,
        history=history,
        timeline=timeline(history),
        diamonds=diamonds,
        inputs=[_linked(view, name) for name in node.inputs],
        readers=[_linked(view, name) for name in view.readers.get(node.name, ())],
    )


def source_page(view: LakeView, visitor: Visitor, source: SourceView) -> str:
    """One source."""
    readers = [_linked(view, name) for name in view.readers.get(source.name, ())]
    return _render("source.html", view, visitor, source=source, card=card_of(source), readers=readers)


def explain_page(view: LakeView, visitor: Visitor, node: NodeView, sections: Sequence[Section]) -> str:
    """How and why a stream table is refreshed."""
    return _render("explain.html", view, visitor, table=node, card=card_of(node), sections=sections)


def rows_page(view: LakeView, visitor: Visitor, table: NodeView | SourceView, rows: FirstRows) -> str:
    """A table's first rows."""
    return _render("rows.html", view, visitor, table=table, card=card_of(table), rows=rows)


def ticks_page(view: LakeView, visitor: Visitor, ticks: Sequence[TickView]) -> str:
    """The newest ticks."""
    return _render("ticks.html", view, visitor, ticks=ticks, stages=STAGES)


def pending_page(view: LakeView, visitor: Visitor) -> str:
    """Changes that wait."""
    waiting = [node for node in view.nodes if node.waiting_for]
    return _render("pending.html", view, visitor, waiting=waiting)


def errors_page(view: LakeView, visitor: Visitor) -> str:
    """What fails, and what to do about it."""
    failing = [node for node in view.nodes if node.error is not None]
    return _render("errors.html", view, visitor, failing=failing)


def api_page(view: LakeView, visitor: Visitor, document: dict[str, Any]) -> str:
    """The API for people, from its own document."""
    return _render("api.html", view, visitor, document=document)


def login_page(view: LakeView, visitor: Visitor, wrong: bool) -> str:
    """Where a token is entered."""
    return _render("login.html", view, visitor, wrong=wrong)


def problem_page(
    view: LakeView | None, visitor: Visitor, code: str, message: str, detail: str = "", hint: str = ""
) -> str:
    """What went wrong with a request."""
    return _render("problem.html", view, visitor, code=code, message=message, detail=detail, hint=hint)


def _linked(view: LakeView, name: str) -> tuple[str, str | None, str]:
    """A table's name, the address of its page, and its state; a dropped one has no page."""
    table = view.by_key.get(name.lower())
    if table is None:
        return name, None, "dropped"
    card = card_of(table)
    return name, card.path, card.label


def _render(template: str, view: LakeView | None, visitor: Visitor, **values: Any) -> str:
    return _environment().get_template(template).render(view=view, visitor=visitor, **values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("anabranch.observe.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(words=words, labels=LABELS, card_of=card_of, half=HALF, timeline_width=WIDTH)
    made.globals.update(table_width=TABLE_WIDTH, table_height=TABLE_HEIGHT, red=RED)
    return made
