"""The names of the fields of `struct(...)`, `(a, b)` and `arrays_zip(...)`, which Spark takes from the text.

struct(t.x, st.c, max(b), y AS z)    has the fields x, c, col3, z

What is run names columns otherwise than the user, and an aggregate is a column by then, so fields are named explicitly.
"""

from __future__ import annotations

from anabranch.sql.syntax import Aliased, Expr, Name, Opaque
from anabranch.sql.syntax_walk import strip
from anabranch.sql.tokens import Kind, Source


def field_name(node: Expr, source: Source) -> str | None:
    """What the field made of this expression is called; None if it is called by its place."""
    node = strip(node)
    match node:
        case Aliased():
            return node.name
        case Name():
            return node.parts[-1]
        case Opaque():
            return _extracted(node, source)
    return None


def _extracted(node: Opaque, source: Source) -> str | None:
    """`value.field` and `value['field']` are called like the field."""
    tokens = source.tokens[node.start : node.end]
    ends = [each.text for each in tokens[-3:]]
    if len(ends) == 3 and ends[1] == "." and len(node.parts) == 1 and node.parts[0].end == node.end - 2:
        return ends[2]
    is_item = len(ends) == 3 and (ends[0], ends[2]) == ("[", "]") and tokens[-2].kind is Kind.STRING
    return ends[1] if is_item else None


def text_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
