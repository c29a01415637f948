"""Named moments at which a test may kill the process, to show that a crash loses nothing and repeats nothing."""

from __future__ import annotations

import os
import signal

CRASH_POINTS = (
    "stage.before_write",
    "stage.after_write",
    "commit.locked",
    "commit.files_moved",
    "commit.begun",
    "commit.requirements_checked",
    "commit.applied",
    "commit.before_commit",
    "commit.after_commit",
    "compact.before_flush",
    "compact.before_merge",
    "compact.before_rewrite",
    "compact.before_exact",
    "compact.before_cleanup",
    "compact.after_cleanup",
    "expire.before_anchor",
    "expire.before_expire",
    "expire.before_cleanup",
    "expire.after_cleanup",
)
_VARIABLE = "ANABRANCH_CRASH_AT"


def reach(name: str) -> None:
    """Do nothing, unless the environment asks for a crash right here."""
    assert name in CRASH_POINTS, name
    if os.environ.get(_VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
