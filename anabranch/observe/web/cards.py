"""What a table's box in the graph says: the same value is drawn by the server and brought up to date by the script."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.observe.web.layout import TABLE_WIDTH
from anabranch.observe.web.model import NodeView, SourceView
from anabranch.observe.web.words import change, code_of, count, counted, fitted, table_path

LABELS = {
    "FRESH": "fresh",
    "BEHIND": "behind",
    "WAITING": "waiting",
    "PAUSED": "paused",
    "SUSPENDED": "suspended",
    "FAILED": "failed",
    "SOURCE": "source",
}
"""Each state by a word: colour alone tells nobody who cannot see it."""
_ROOM = TABLE_WIDTH - 28
_NAME_SIZE, _LINE_SIZE = 16.0, 12.0
_MARK_ROOM = 20.0


@dataclass(frozen=True)
class Card:
    """A box. `since` is an instant, `since_text` what it is the time of; `mark` tells ends and members of diamonds."""

    name: str
    title: str
    path: str
    state: str
    label: str
    since_text: str
    since: str | None
    action: str
    facts: str
    mark: str
    summary: str


def card_of(table: NodeView | SourceView) -> Card:
    """The box of a source or stream table."""
    return _source(table) if isinstance(table, SourceView) else _node(table)


def _source(source: SourceView) -> Card:
    facts = counted(source.rows, "row")
    return Card(
        source.name,
        fitted(source.name, _ROOM, _NAME_SIZE),
        table_path(source.id, source.name),
        "SOURCE",
        LABELS["SOURCE"],
        "changed" if source.changed_at else "",
        source.changed_at,
        f"version {source.version}",
        facts,
        "",
        f"source {source.name}, {facts}",
    )


def _node(node: NodeView) -> Card:
    label = LABELS[node.state]
    facts = " · ".join([node.mode, node.schedule or "by hand", counted(node.rows, "row")])
    action = _action(node)
    mark = "◆" if node.convergence_of else "◇" if node.member_of else ""
    behind = node.behind_since is not None
    summary = [f"stream table {node.name}", label, action, facts]
    if node.error:
        summary.append(f"{node.error.code}: {node.error.message}")
    if node.convergence_of:
        summary.append(f"end of a diamond over {', '.join(node.convergence_of)}")
    if node.member_of:
        summary.append(f"in the diamond of {', '.join(node.member_of)}")
    return Card(
        node.name,
        fitted(node.name, _ROOM - (_MARK_ROOM if mark else 0), _NAME_SIZE),
        table_path(node.id, node.name),
        node.state,
        label,
        "oldest change" if behind else "refreshed" if node.refreshed_at else "never refreshed",
        node.behind_since if behind else node.refreshed_at,
        fitted(action, _ROOM, _LINE_SIZE),
        fitted(facts, _ROOM, _LINE_SIZE),
        mark,
        ", ".join(summary),
    )


def _action(node: NodeView) -> str:
    if node.error is not None:
        return f"{node.error.code}, {count(node.consecutive_errors)} in a row"
    if node.last is None:
        return "no refresh yet"
    changed = change(node.last.rows_inserted, node.last.rows_deleted)
    return f"{node.last.action} {changed} {code_of(node.last.reason)}"
