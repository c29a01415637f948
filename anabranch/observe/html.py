"""HTML for notebooks. Every text is escaped: names and query texts are other people's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table; None is an empty cell."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _cell(value: object) -> str:
    return "" if value is None else escape(f"{value:.3f}" if isinstance(value, float) else str(value))
