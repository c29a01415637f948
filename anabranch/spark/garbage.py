"""Java's objects that nobody needs any more, and that Python still holds.

py4j ties every Java object that a method was called of into a circle, so that only Python's collector lets go of it. In
a process with much else in memory the collector seldom looks at what is not quite new, and Java's heap fills with the
plans and broadcast tables of queries that are long done.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

from py4j.finalizer import ThreadSafeFinalizer  # type: ignore[import-untyped]

MOST = 2_000
"""So many more objects than the last time, and the collector is called: a few dozen queries' worth."""


@dataclass
class _Held:
    """How many Java objects Python held when the collector had last been called."""

    count: int = 0


_held = _Held()


def let_go_of_java() -> None:
    """Call Python's collector if it has left many Java objects behind. Cheap if it has not."""
    if len(ThreadSafeFinalizer.finalizers) > _held.count + MOST:
        gc.collect()
        _held.count = len(ThreadSafeFinalizer.finalizers)
