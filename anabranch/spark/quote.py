"""Names and types as Spark SQL text."""

from __future__ import annotations


def quoted(name: str) -> str:
    """The name as one identifier, whatever it contains.

    >>> quoted("a`b c")
    '`a``b c`'
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """The text as a string literal.

    >>> literal("it's")
    "'it\\\\'s'"
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
