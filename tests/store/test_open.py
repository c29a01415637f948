"""Opening: a lake that is not there, one of another version, a catalog that is not known, two handles on one lake."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from anabranch.errors import SettingError, StorageError
from anabranch.store.connection import extension_path
from anabranch.store.open import open_lake

from .crash_child import BareLake


def _code(path: Path, catalog: str | None = None, create: bool = False) -> str:
    with pytest.raises((StorageError, SettingError)) as caught:
        open_lake(str(path), catalog, create)
    assert caught.value.message
    return caught.value.code


def test_a_lake_that_is_not_there(tmp_path: Path) -> None:
    assert _code(tmp_path / "nope") == "LAKE_NOT_FOUND"
    assert not (tmp_path / "nope").exists()
    (tmp_path / "other").mkdir()
    assert _code(tmp_path / "other") == "LAKE_NOT_FOUND"


def test_a_catalog_that_is_not_known(tmp_path: Path) -> None:
    assert _code(tmp_path, "mysql:whatever", create=True) == "CATALOG_NOT_KNOWN"
    assert _code(tmp_path / "x", "postgres:host=/nowhere dbname=x", create=True) == "CATALOG_UNREACHABLE"
    assert _code(tmp_path / "a*b", create=True) == "PATH_NOT_USABLE"


def test_a_catalog_of_a_newer_version(tmp_path: Path) -> None:
    BareLake(tmp_path / "lake").close()
    with duckdb.connect() as client:
        client.execute(f"LOAD '{extension_path('sqlite_scanner')}'")
        client.execute(f"ATTACH '{tmp_path}/lake/catalog.sqlite' AS c (TYPE sqlite)")
        client.execute("UPDATE c.ducklake_metadata SET value = '99.0' WHERE key = 'version'")
    assert _code(tmp_path / "lake") == "CATALOG_VERSION"


def test_a_file_that_is_no_catalog(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.sqlite").write_text("this is not a database")
    assert _code(tmp_path / "lake") == "LAKE_NOT_OPENED"


def test_two_handles_see_each_other(tmp_path: Path) -> None:
    first, second = BareLake(tmp_path / "lake"), BareLake(tmp_path / "lake")
    key = first.create("t", "a bigint")
    assert second.table("t") == key
    first.close()
    first.close()
    with pytest.raises(StorageError) as caught:
        first.head()
    assert caught.value.code == "LAKE_CLOSED"
    second.close()
