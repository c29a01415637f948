"""Several queries at once: planning takes the driver longer than the executors' work, and it has several cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = 4
LARGEST_GROUP = 120
"""So many operators are planned as one query: more take longer than in proportion, and every task carries them all."""
T = TypeVar("T")
R = TypeVar("R")


def grouped(items: Iterable[T], sizes: Iterable[int], largest: int = LARGEST_GROUP) -> list[list[T]]:
    """The items in order, in groups of this size at most; a larger item is a group of its own."""
    groups: list[list[T]] = []
    room = 0
    for each, size in zip(items, sizes, strict=True):
        if not groups or size > room:
            groups.append([])
            room = largest
        groups[-1].append(each)
        room -= size
    return groups


def apportioned(sizes: Mapping[T, int], groups: int) -> list[list[T]]:
    """The items in so many groups of about the same size, each in order."""
    loads = [0] * groups
    place: dict[T, int] = {}
    for each in sorted(sizes, key=lambda item: -sizes[item]):
        place[each] = min(range(groups), key=loads.__getitem__)
        loads[place[each]] += sizes[each]
    return [[each for each in sizes if place[each] == number] for number in range(groups) if number in place.values()]


def side_by_side(spark: SparkSession, work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """`work` on each item, on several threads that belong to this one's Spark jobs; results in order."""
    if len(items) <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(min(THREADS, len(items))) as pool:
        # One target for each item: the properties of this thread's jobs are copied when it is made, and its context.
        futures = [pool.submit(copy_context().run, inheritable_thread_target(spark)(work), each) for each in items]
        yield from (each.result() for each in futures)
