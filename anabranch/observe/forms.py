"""The same rows as an Arrow table, a pandas or a Spark DataFrame, as the caller likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import SettingError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.engine import Engine

FORMS = ("arrow", "pandas", "spark")


def in_form(engine: Engine, rows: pa.Table, form: str) -> Any:
    """The rows in the form that was asked for."""
    match form:
        case "arrow":
            return rows
        case "pandas":
            return rows.to_pandas()
        case "spark":
            return engine.session.createDataFrame(rows.combine_chunks())
    raise SettingError("BAD_FORM", f"{form!r} is not a form of rows", f"forms: {', '.join(FORMS)}")
