"""Statements as values: what `lake.sql` was asked to do. Expressions and queries are fragments of the user's text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.errors import QueryError
from anabranch.sql.from_syntax import Table
from anabranch.sql.tokens import Source

QualifiedName = tuple[str, ...]
ViewOf = Callable[[QualifiedName], str | None]
"""Gives the text that stands for a table in Spark, such as a view's name; None leaves the name as it is."""


@dataclass(frozen=True)
class Fragment:
    """A piece of the user's text, the tables it reads, and the words in it that mean NULL (`DEFAULT`)."""

    source: Source
    start: int
    end: int
    tables: tuple[Table, ...] = ()
    defaults: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        return self.source.slice(self.start, self.end)

    @property
    def table_names(self) -> tuple[QualifiedName, ...]:
        return tuple(dict.fromkeys(table.parts for table in self.tables))

    def with_views(self, view_of: ViewOf) -> str:
        """The text with table names replaced. A table without an alias keeps its name as one."""
        replaced: dict[int, tuple[int, str]] = {place: (place + 1, "NULL") for place in self.defaults}
        late_aliases: dict[int, str] = {}
        for table in self.tables:
            view = view_of(table.parts)
            if view is not None and table.versioned:
                raise QueryError(
                    "TIME_TRAVEL",
                    f"VERSION or TIMESTAMP AS OF is not understood for table {'.'.join(table.parts)!r}",
                    "a query reads all its tables at one snapshot",
                    "read an older one with lake.table(name, snapshot=n) or lake.snapshot(n).sql(...)",
                )
            if view is not None and table.whole:
                replaced[table.start - 1] = (table.name_end, f"SELECT * FROM {view} AS {quoted(table.parts[-1])}")
            elif view is not None:
                alias = "" if table.alias is not None else f" AS {quoted(table.parts[-1])}"
                if table.sampled:  # an alias comes after TABLESAMPLE (...)
                    late_aliases[table.end], alias = alias, ""
                replaced[table.start] = (table.name_end, view + alias)
        pieces: list[str] = []
        index = self.start
        while index < self.end:
            if index > self.start and self.source.gap_before(index):
                pieces.append(" ")
            following, text = replaced.get(index, (index + 1, self.source.slice(index, index + 1)))
            pieces.append(text)
            index = following
            pieces.append(late_aliases.get(index, ""))
        return "".join(pieces)


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


# ---- stream tables


@dataclass(frozen=True)
class CreateStreamTable:
    name: QualifiedName
    query: str
    or_replace: bool = False
    if_not_exists: bool = False
    schedule: str | None = None
    refresh_mode: str | None = None


@dataclass(frozen=True)
class AlterStreamTable:
    """What is None stays; `clear_schedule` makes the table manual."""

    name: QualifiedName
    schedule: str | None = None
    clear_schedule: bool = False
    refresh_mode: str | None = None
    query: str | None = None


@dataclass(frozen=True)
class PauseStreamTable:
    name: QualifiedName


@dataclass(frozen=True)
class ResumeStreamTable:
    name: QualifiedName


@dataclass(frozen=True)
class DropStreamTable:
    name: QualifiedName
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class RefreshStreamTable:
    """No names: everything pending."""

    names: tuple[QualifiedName, ...] = ()


@dataclass(frozen=True)
class ShowStreamTables:
    pass


@dataclass(frozen=True)
class ExplainStreamTable:
    name: QualifiedName


# ---- tables and views


@dataclass(frozen=True)
class ColumnDefinition:
    """A column as declared; the type is the user's text."""

    name: str
    type: str
    not_null: bool = False
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class CreateTable:
    """`options` names clauses that mean nothing to a lake (USING, LOCATION, ...)."""

    name: QualifiedName
    columns: tuple[ColumnDefinition, ...] = ()
    query: Fragment | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class DropTable:
    name: QualifiedName
    if_exists: bool = False


@dataclass(frozen=True)
class AddColumns:
    name: QualifiedName
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True)
class DropColumns:
    name: QualifiedName
    columns: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    name: QualifiedName
    column: str
    new_name: str


@dataclass(frozen=True)
class CreateView:
    name: QualifiedName
    query: str
    columns: tuple[str, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class DropView:
    name: QualifiedName
    if_exists: bool = False


# ---- changes of rows


@dataclass(frozen=True)
class Insert:
    """`columns` is the column list as written, () for none; `prefix` is a WITH clause before INSERT."""

    target: QualifiedName
    query: Fragment
    columns: tuple[str, ...] = ()
    by_name: bool = False
    prefix: Fragment | None = None


@dataclass(frozen=True)
class Assignment:
    """`column = value`; value None is DEFAULT."""

    column: QualifiedName
    value: Fragment | None


@dataclass(frozen=True)
class Update:
    target: QualifiedName
    assignments: tuple[Assignment, ...]
    alias: str | None = None
    condition: Fragment | None = None


@dataclass(frozen=True)
class Delete:
    target: QualifiedName
    alias: str | None = None
    condition: Fragment | None = None


@dataclass(frozen=True)
class UpdateClause:
    """`UPDATE SET a = x`, or all columns by name (`UPDATE SET *`) where `assignments` is None."""

    condition: Fragment | None
    assignments: tuple[Assignment, ...] | None


@dataclass(frozen=True)
class DeleteClause:
    condition: Fragment | None


@dataclass(frozen=True)
class InsertClause:
    """`INSERT (a) VALUES (x)`, or all columns by name (`INSERT *`) where `assignments` is None."""

    condition: Fragment | None
    assignments: tuple[Assignment, ...] | None


@dataclass(frozen=True)
class Merge:
    """Clauses in the order written: the first whose condition holds acts."""

    target: QualifiedName
    source: Fragment
    source_alias: str | None
    on: Fragment
    alias: str | None = None
    matched: tuple[UpdateClause | DeleteClause, ...] = ()
    not_matched: tuple[InsertClause, ...] = ()
    not_matched_by_source: tuple[UpdateClause | DeleteClause, ...] = ()


@dataclass(frozen=True)
class SelectStatement:
    """A query, given to Spark as it is."""

    query: Fragment


@dataclass(frozen=True)
class OtherStatement:
    """Anything else Spark may understand (SHOW, DESCRIBE, SET, EXPLAIN ...); `keyword` is its first word."""

    keyword: str
    text: str


StreamStatement = (
    CreateStreamTable
    | AlterStreamTable
    | PauseStreamTable
    | ResumeStreamTable
    | DropStreamTable
    | RefreshStreamTable
    | ShowStreamTables
    | ExplainStreamTable
)
Definition = CreateTable | DropTable | AddColumns | DropColumns | RenameColumn | CreateView | DropView
Change = Insert | Update | Delete | Merge
Statement = StreamStatement | Definition | Change | SelectStatement | OtherStatement
