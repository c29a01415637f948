"""What a compiled query makes of a definition: its inputs, columns and stored parts, and the view that readers see."""

from __future__ import annotations

from dataclasses import replace

from anabranch.compile import Program
from anabranch.definitions import StoredPart, StreamTable
from anabranch.engine import Engine
from anabranch.pinned import Pinned
from anabranch.store.protocol import MAIN, STATE, CreateView, TableName


def defined_by(engine: Engine, pinned: Pinned, node: StreamTable, program: Program) -> StreamTable:
    """The definition with all that its compiled query says, under the settings of now."""
    return replace(
        node,
        inputs=tuple(sorted(program.tables)),
        columns=program.columns,
        parts=_stored_parts(node, program),
        session=engine.definition_settings,
        input_names={table: pinned.name_of(table) for table in program.tables},
        fields_read=_fields_read(pinned, program),
        clock=program.clock,
        views=dict(program.views),
    )


def _stored_parts(node: StreamTable, program: Program) -> tuple[StoredPart, ...]:
    return tuple(
        StoredPart(
            part.name,
            "_".join(filter(None, (node.name, node.id[:8], str(node.generation), part.name))),
            part.columns,
            part.visible,
            part.flag,
        )
        for part in program.parts
    )


def _fields_read(pinned: Pinned, program: Program) -> dict[str, dict[str, int]]:
    """The columns of sources that the query reads, by field id."""
    read: dict[str, dict[str, int]] = {}
    for table, names in program.columns_read.items():
        if table in pinned.sources:
            info = pinned.sources[table]
            fields = dict(zip((each.name for each in info.columns), info.field_ids, strict=True))
            read[table] = {name: fields[name] for name in sorted(names)}
    return read


def view_of(node: StreamTable) -> CreateView:
    """What a stream table's readers see, for every client of the lake."""
    shown = node.shown
    return CreateView(TableName(MAIN, node.name), TableName(STATE, shown.table), shown.visible, shown.flag)
