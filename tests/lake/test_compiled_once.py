"""A query is compiled once, for as long as the names in it mean what they meant."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch import AnabranchError, Lake, compile, engine
from anabranch.observe.report import Action
from tests.lake.tools import bag, rows


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that were compiled."""
    texts: list[str] = []
    compile_query = engine.compile_query

    def counting(query: str, *others: Any) -> Any:
        texts.append(query)
        return compile_query(query, *others)

    monkeypatch.setattr(engine, "compile_query", counting)
    return texts


def test_creating_and_refreshing_compile_once(lake: Lake, compiled: list[str]) -> None:
    lake.sql("CREATE TABLE t (a INT)")
    lake.create_stream_table("s", "SELECT a + 1 AS b FROM t")
    lake.append("t", [(1,)])
    lake.refresh()
    assert lake.check("s")
    assert compiled == ["SELECT a + 1 AS b FROM t"]


def test_a_name_that_means_something_else_is_compiled_again(lake: Lake, compiled: list[str]) -> None:
    lake.sql("CREATE TABLE t (a INT)")
    lake.append("t", [(1,)])
    lake.sql("CREATE VIEW v AS SELECT a FROM t")
    lake.create_stream_table("s", "SELECT * FROM v")
    lake.sql("CREATE OR REPLACE VIEW v AS SELECT a * 10 AS a FROM t")
    lake.create_stream_table("u", "SELECT * FROM v")
    lake.sql("ALTER TABLE t ADD COLUMN c INT")
    lake.create_stream_table("w", "SELECT * FROM t")
    lake.drop_stream_table("w")
    lake.sql("ALTER TABLE t DROP COLUMN c")
    lake.create_stream_table("w", "SELECT * FROM t")
    assert (rows(lake, "s"), rows(lake, "u"), rows(lake, "w")) == (bag((1,)), bag((10,)), bag((1,)))
    assert compiled.count("SELECT * FROM v") == 2
    assert compiled.count("SELECT * FROM t") == 2


def test_a_mistake_of_ours_in_compiling_leaves_the_full_way(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(relation: object) -> object:
        raise AssertionError("something is wrong here")

    monkeypatch.setattr(compile, "lower", failing)
    lake.sql("CREATE TABLE t (a INT)")
    lake.append("t", [(1,)])
    with pytest.raises(AnabranchError, match="something is wrong here"):
        lake.create_stream_table("s", "SELECT a FROM t", refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("s", "SELECT a FROM t")
    lake.append("t", [(2,)])
    assert lake.refresh()["s"].action is Action.FULL
    assert rows(lake, "s") == bag((1,), (2,))
