"""The grammar of statements that are not queries: definitions of tables, and stream tables."""

from __future__ import annotations

from anabranch.sql.cursor import Cursor
from anabranch.sql.parse import tables_in
from anabranch.sql.pipes import PipeGrammar
from anabranch.sql.statement_nodes import (
    AddColumns,
    AlterStreamTable,
    ColumnDefinition,
    CreateStreamTable,
    CreateTable,
    CreateView,
    DropColumns,
    DropStreamTable,
    DropTable,
    DropView,
    ExplainStreamTable,
    Fragment,
    PauseStreamTable,
    RefreshStreamTable,
    RenameColumn,
    ResumeStreamTable,
    ShowStreamTables,
    Statement,
)
from anabranch.sql.tokens import Kind

REFRESH_MODES = ("AUTO", "DIFFERENTIAL", "FULL", "IMMEDIATE")


class DefinitionGrammar(PipeGrammar):
    """CREATE, ALTER, DROP, REFRESH, SHOW and EXPLAIN where they are ours; None where Spark may know better."""

    def definition(self) -> Statement | None:
        if self.accept("CREATE"):
            return self._create()
        if self.accept("ALTER", "STREAM", "TABLE"):
            return self._alter_stream_table()
        if self.accept("ALTER", "TABLE"):
            return self._alter_table()
        if self.accept("DROP"):
            return self._drop()
        if self.accept("REFRESH", "STREAM", "TABLE"):
            self.accept("S")
            return RefreshStreamTable(() if self._ended() else self.comma_separated(self.names))
        if self.accept("SHOW", "STREAM", "TABLES"):
            return ShowStreamTables()
        if self.accept("EXPLAIN", "STREAM", "TABLE"):
            return ExplainStreamTable(self.names())
        return None

    def _ended(self) -> bool:
        return self.token().kind is Kind.END or self.at(";")

    def rest(self) -> str:
        """Everything up to the end, as written: comments stay."""
        start = self.token().start
        end = self.source.tokens[self.limit - 1].end
        if start >= end:
            self.fail("expected a query")
        self.index = self.limit
        return self.source.text[start:end].rstrip().rstrip(";").rstrip()

    def query_fragment(self) -> Fragment:
        start = self.index
        query = self.query()
        return Fragment(self.source, start, self.index, tables_in(query))

    def _create(self) -> Statement | None:
        or_replace = self.accept("OR", "REPLACE")
        if self.accept("STREAM", "TABLE"):
            return self._create_stream_table(or_replace)
        if self.accept("TABLE"):
            return self._create_table(or_replace)
        temporary = self.accept("GLOBAL", "TEMPORARY") or self.accept("TEMPORARY") or self.accept("TEMP")
        if self.accept("VIEW"):
            return self._create_view(or_replace, temporary)
        return None

    def _if_not_exists(self) -> bool:
        return self.accept("IF", "NOT", "EXISTS")

    def _create_stream_table(self, or_replace: bool) -> CreateStreamTable:
        if_not_exists = self._if_not_exists()
        name = self.names()
        schedule: str | None = None
        mode: str | None = None
        while not self.accept("AS"):
            if self.accept("SCHEDULE"):
                schedule = self._string("a schedule such as '2s'")
            elif self.accept("REFRESH", "MODE"):
                mode = self._refresh_mode()
            else:
                self.fail("expected SCHEDULE, REFRESH MODE or AS")
        return CreateStreamTable(name, self.rest(), or_replace, if_not_exists, schedule, mode)

    def _string(self, what: str) -> str:
        if self.token().kind is not Kind.STRING:
            self.fail(f"expected {what}")
        self.index += 1
        return self.source.tokens[self.index - 1].text

    def _refresh_mode(self) -> str:
        mode = self._string("a mode") if self.token().kind is Kind.STRING else self.name()
        if mode.upper() not in REFRESH_MODES:
            self.fail(f"expected one of {', '.join(REFRESH_MODES)}", self.index - 1)
        return mode.upper()

    def _alter_stream_table(self) -> Statement:
        name = self.names()
        if self.accept("PAUSE"):
            return PauseStreamTable(name)
        if self.accept("RESUME"):
            return ResumeStreamTable(name)
        if self.accept("AS"):
            return AlterStreamTable(name, query=self.rest())
        schedule: str | None = None
        clear = False
        mode: str | None = None
        self.expect("SET")
        while True:
            if self.accept("SCHEDULE"):
                clear = self.accept("NULL") or self.accept("NONE")
                schedule = None if clear else self._string("a schedule such as '2s'")
            elif self.accept("REFRESH", "MODE"):
                mode = self._refresh_mode()
            else:
                self.fail("expected SCHEDULE or REFRESH MODE")
            if not (self.accept(",") or self.accept("SET")):
                return AlterStreamTable(name, schedule, clear, mode)

    def _create_table(self, or_replace: bool) -> CreateTable:
        if_not_exists = self._if_not_exists()
        name = self.names()
        columns: tuple[ColumnDefinition, ...] = ()
        if self.at("(") and not self.query_ahead(1):
            columns = self.in_parentheses(lambda: self.comma_separated(self._column_definition))
        options: list[str] = []
        while not self._ended() and not self.accept("AS") and not self.at_any(("SELECT", "WITH", "FROM", "VALUES")):
            options.append(self._table_option())
        query = None if self._ended() else self.query_fragment()
        if query is None and not columns:
            self.fail("expected columns or AS SELECT")
        return CreateTable(name, columns, query, or_replace, if_not_exists, tuple(options))

    def _table_option(self) -> str:
        word = self.name().upper()
        if word == "USING":
            self.name()
        elif word in ("PARTITIONED", "CLUSTERED"):
            self.expect("BY")
            self.skip_balanced()
        elif word in ("TBLPROPERTIES", "OPTIONS"):
            self.skip_balanced()
        elif word in ("LOCATION", "COMMENT"):
            self._string("a string")
        elif word == "CLUSTER":
            self.expect("BY")
            self.skip_balanced()
        else:
            self.fail("expected AS or a table option", self.index - 1)
        return word

    def _column_definition(self) -> ColumnDefinition:
        name = self.name()
        self.accept(":")
        start = self.index
        self.type()
        declared = self.source.slice(start, self.index)
        not_null = False
        default: str | None = None
        comment: str | None = None
        while True:
            if self.accept("NOT", "NULL"):
                not_null = True
            elif self.accept("NULL"):
                not_null = False
            elif self.accept("DEFAULT"):
                begin = self.index
                self.value()
                default = self.source.slice(begin, self.index)
            elif self.accept("COMMENT"):
                comment = self._string("a comment")
            elif self.accept("FIRST") or (self.accept("AFTER") and self.name()):
                self.fail("a new column is added at the end; FIRST and AFTER are not supported", self.index - 1)
            else:
                return ColumnDefinition(name, declared, not_null, default, comment)

    def _alter_table(self) -> Statement | None:
        name = self.names()
        if self.accept("ADD", "COLUMNS") or self.accept("ADD", "COLUMN"):
            if self.at("("):
                return AddColumns(name, self.in_parentheses(lambda: self.comma_separated(self._column_definition)))
            return AddColumns(name, self.comma_separated(self._column_definition))
        if self.accept("DROP", "COLUMNS") or self.accept("DROP", "COLUMN"):
            if_exists = self.accept("IF", "EXISTS")
            columns = self.name_list() if self.at("(") else self.comma_separated(self.name)
            return DropColumns(name, columns, if_exists)
        if self.accept("RENAME", "COLUMN"):
            column = self.name()
            self.expect("TO")
            return RenameColumn(name, column, self.name())
        return None

    def _create_view(self, or_replace: bool, temporary: bool) -> CreateView:
        if_not_exists = self._if_not_exists()
        name = self.names()
        columns: tuple[str, ...] = ()
        if self.at("("):
            columns = self.in_parentheses(lambda: self.comma_separated(self._view_column))
        if self.accept("COMMENT"):
            self._string("a comment")
        self.expect("AS")
        return CreateView(name, self.rest(), columns, or_replace, if_not_exists, temporary)

    def _view_column(self) -> str:
        name = self.name()
        if self.accept("COMMENT"):
            self._string("a comment")
        return name

    def _drop(self) -> Statement | None:
        if self.accept("STREAM", "TABLE"):
            if_exists = self.accept("IF", "EXISTS")
            name = self.names()
            cascade = self.accept("CASCADE")
            self.accept("RESTRICT")
            return DropStreamTable(name, if_exists, cascade)
        for word, statement in (("TABLE", DropTable), ("VIEW", DropView)):
            if self.accept(word):
                if_exists = self.accept("IF", "EXISTS")
                name = self.names()
                self.accept("PURGE")
                return statement(name, if_exists)
        return None


def at_end(grammar: Cursor) -> bool:
    """Whether nothing but semicolons is left."""
    while grammar.accept(";"):
        pass
    return grammar.token().kind is Kind.END
