"""A setting that is listed does something."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import anabranch
from anabranch.errors import StorageError
from anabranch.settings import SETTINGS
from anabranch.store.lock import file_lock

PACKAGE = Path(__file__).parents[1] / "anabranch"


def test_every_setting_is_asked_for_somewhere() -> None:
    words = {
        each.value
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "settings.py"
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(each, ast.Constant)
    }
    assert [name for name in SETTINGS if name not in words] == []


def test_a_commit_waits_for_its_turn_as_long_as_the_setting_says(tmp_path: Path) -> None:
    with (
        anabranch.connect(str(tmp_path / "shop"), commit_timeout=0.1) as lake,
        file_lock(tmp_path / "shop" / "lock", 1.0),
        pytest.raises(StorageError) as caught,
    ):
        lake.pause()
    assert caught.value.code == "LAKE_BUSY"
    assert "for 0.1 seconds" in caught.value.message
