"""Looking at a lake starts no Spark: it has to be quick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anabranch

LOOK = """
import sys
import anabranch
with anabranch.connect(sys.argv[1]) as lake:
    lake.status(), lake.history(), lake.pending_changes(), lake.diamond_groups(), repr(lake)
    lake.frontier("doubled"), lake.dependency_tree("doubled")
    assert lake.refresh()["doubled"].action == "NO_DATA"
    assert not lake._engine.own_session.is_started
"""


def test_looking_starts_no_spark(lake: anabranch.Lake) -> None:
    lake.sql("CREATE TABLE numbers (n BIGINT)")
    lake.create_stream_table("doubled", "SELECT n * 2 AS n FROM numbers")
    subprocess.run([sys.executable, "-c", LOOK, lake._engine.path], check=True, cwd=Path(__file__).parents[2])
