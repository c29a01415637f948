"""Statements are told apart and taken apart without changing a letter of the user's expressions."""

from __future__ import annotations

import pytest

from anabranch.errors import QueryError
from anabranch.sql import statement_nodes as nodes
from anabranch.sql.statements import parse_statement, split_statements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "create or replace stream table a.b schedule '2s' refresh mode differential as select 1 -- one\n",
            nodes.CreateStreamTable(("a", "b"), "select 1", True, False, "2s", "DIFFERENTIAL"),
        ),
        (
            "CREATE STREAM TABLE IF NOT EXISTS `Order` AS WITH x AS (SELECT 1) SELECT /* c */ * FROM x;",
            nodes.CreateStreamTable(("Order",), "WITH x AS (SELECT 1) SELECT /* c */ * FROM x", False, True),
        ),
        ("ALTER STREAM TABLE n SET SCHEDULE '5m'", nodes.AlterStreamTable(("n",), schedule="5m")),
        ("ALTER STREAM TABLE n SET SCHEDULE NULL", nodes.AlterStreamTable(("n",), clear_schedule=True)),
        ("ALTER STREAM TABLE n SET REFRESH MODE full", nodes.AlterStreamTable(("n",), refresh_mode="FULL")),
        ("ALTER STREAM TABLE n AS SELECT 2", nodes.AlterStreamTable(("n",), query="SELECT 2")),
        ("ALTER STREAM TABLE n PAUSE", nodes.PauseStreamTable(("n",))),
        ("ALTER STREAM TABLE n RESUME;", nodes.ResumeStreamTable(("n",))),
        ("DROP STREAM TABLE IF EXISTS n CASCADE", nodes.DropStreamTable(("n",), True, True)),
        ("REFRESH STREAM TABLE", nodes.RefreshStreamTable()),
        ("REFRESH STREAM TABLE a, b.c", nodes.RefreshStreamTable((("a",), ("b", "c")))),
        ("SHOW STREAM TABLES", nodes.ShowStreamTables()),
        ("EXPLAIN STREAM TABLE n", nodes.ExplainStreamTable(("n",))),
        ("DROP TABLE IF EXISTS t", nodes.DropTable(("t",), True)),
        ("DROP VIEW v", nodes.DropView(("v",))),
        (
            "ALTER TABLE t ADD COLUMNS (a INT, b STRUCT<x: ARRAY<INT>> COMMENT 'c')",
            nodes.AddColumns(
                ("t",),
                (
                    nodes.ColumnDefinition("a", "INT"),
                    nodes.ColumnDefinition("b", "STRUCT<x: ARRAY<INT>>", comment="c"),
                ),
            ),
        ),
        (
            "ALTER TABLE t ADD COLUMN a DECIMAL(10, 2)",
            nodes.AddColumns(("t",), (nodes.ColumnDefinition("a", "DECIMAL(10, 2)"),)),
        ),
        ("ALTER TABLE t DROP COLUMN IF EXISTS a", nodes.DropColumns(("t",), ("a",), True)),
        ("ALTER TABLE t DROP COLUMNS (a, b)", nodes.DropColumns(("t",), ("a", "b"))),
        ("ALTER TABLE t RENAME COLUMN a TO b", nodes.RenameColumn(("t",), "a", "b")),
        (
            "CREATE OR REPLACE VIEW v (x, y) AS SELECT 1, 2",
            nodes.CreateView(("v",), "SELECT 1, 2", ("x", "y"), True),
        ),
        ("SET spark.sql.ansi.enabled = true;", nodes.OtherStatement("SET", "SET spark.sql.ansi.enabled = true")),
        ("SHOW TABLES", nodes.OtherStatement("SHOW", "SHOW TABLES")),
        ("DESCRIBE TABLE t", nodes.OtherStatement("DESCRIBE", "DESCRIBE TABLE t")),
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", None),
    ],
)
def test_statement(text: str, expected: nodes.Statement | None) -> None:
    found = parse_statement(text)
    if expected is None:
        assert isinstance(found, nodes.OtherStatement)
    else:
        assert found == expected


def test_create_table() -> None:
    found = parse_statement(
        "CREATE TABLE IF NOT EXISTS s.t (id BIGINT NOT NULL, d TIMESTAMP_NTZ DEFAULT now(), `x y` MAP<STRING, INT>) "
        "USING parquet TBLPROPERTIES ('a' = 'b') COMMENT 'hello'"
    )
    assert isinstance(found, nodes.CreateTable)
    assert found.name == ("s", "t")
    assert found.if_not_exists
    assert [(each.name, each.type) for each in found.columns] == [
        ("id", "BIGINT"),
        ("d", "TIMESTAMP_NTZ"),
        ("x y", "MAP<STRING, INT>"),
    ]
    assert found.columns[0].not_null
    assert found.columns[1].default == "now()"
    assert found.options == ("USING", "TBLPROPERTIES", "COMMENT")


def test_create_table_as_select_names_its_tables() -> None:
    found = parse_statement("CREATE TABLE t AS WITH c AS (SELECT * FROM a) SELECT * FROM c JOIN d.b USING (x)")
    assert isinstance(found, nodes.CreateTable)
    assert found.query is not None
    assert found.query.table_names == (("a",), ("d", "b"))


def test_a_query_keeps_its_text_and_gets_its_views() -> None:
    found = parse_statement("SELECT s.a, (SELECT max(b) FROM `my t` x) -- c\nFROM db.s WHERE a IN (SELECT a FROM c)")
    assert isinstance(found, nodes.SelectStatement)
    views = {("db", "s"): "v1", ("my t",): "v2"}
    assert found.query.with_views(views.get) == (
        "SELECT s.a, (SELECT max(b) FROM v2 x) FROM v1 AS `s` WHERE a IN (SELECT a FROM c)"
    )


def test_the_rest_is_left_to_spark() -> None:
    found = parse_statement("SELECT TRANSFORM (a) USING 'cat' AS (b) FROM t JOIN u v ON t.a = v.a")
    assert isinstance(found, nodes.SelectStatement)
    assert found.query.table_names == (("t",), ("u",))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("INSERT OVERWRITE t SELECT 1", "INSERT_OVERWRITE"),
        ("", "QUERY_SYNTAX"),
        ("CREATE STREAM TABLE n REFRESH MODE sometimes AS SELECT 1", "QUERY_SYNTAX"),
        ("CREATE STREAM TABLE n SCHEDULE '2s'", "QUERY_SYNTAX"),
        ("DELETE FROM t WHERE", "QUERY_SYNTAX"),
        ("MERGE INTO t USING s ON t.a = s.a", "QUERY_SYNTAX"),
        ("SELECT 'open", "QUERY_SYNTAX"),
    ],
)
def test_refused(text: str, code: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse_statement(text)
    assert raised.value.code == code


def test_a_syntax_error_says_where() -> None:
    with pytest.raises(QueryError, match=r"expected SET, found 'WHERE' at line 2, column 3"):
        parse_statement("UPDATE t\n  WHERE a = 1")


def test_split() -> None:
    script = "SELECT ';' ; -- a; comment\n\n INSERT INTO t VALUES (1) /* ; */;;\nSELECT `a;b`"
    assert split_statements(script) == ["SELECT ';'", "INSERT INTO t VALUES (1)", "SELECT `a;b`"]
