"""Queries over few rows that are planned once and run at each tick.

    key = the text with its views numbered, their columns, the session's settings

A tick asks what the last one asked, over other rows, and to parse, analyse and plan it anew takes longer than to run
it. A text that comes for the second time is planned over slots: files that get the rows of the moment before each run.
The first time it is run as any other, because many are never asked again. Those that cannot be run twice are
remembered, too.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from anabranch.algebra.relation import Column
from anabranch.errors import AnabranchError
from anabranch.spark.quiet import quietly
from anabranch.spark.quote import quoted
from anabranch.spark.repeatable import means_the_same_each_time, starts_anew_each_time
from anabranch.spark.session import is_remote
from anabranch.spark.side_by_side import side_by_side
from anabranch.spark.slots import Slot, fits
from anabranch.spark.texts import Given, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 400
"""So many queries are kept, a few hundred kilobytes of Java each."""
IDLE = 10
"""One makes room for another if it was not asked while so many times `most` others were: where more than fit are asked
in turn, those that are kept stay, and the others run as any other."""
MOST_SEEN = 20_000
_SLOT = re.compile(r"`__ab_slot (\d+)`")
_number = count()


@dataclass(frozen=True)
class Key:
    """What a plan depends on."""

    text: str
    slots: tuple[tuple[Column, ...], ...]
    settings: str


@dataclass(frozen=True, eq=False)
class Query:
    """A planned query and its slots, which one thread at a time may fill."""

    frame: DataFrame
    slots: tuple[Slot, ...]
    lock: threading.Lock

    def run(self, given: Sequence[Given]) -> pa.Table:
        """The result over these rows, one table for each slot."""
        with self.lock:
            for slot, each in zip(self.slots, given, strict=True):
                slot.fill(each.table)
            return self.frame.toArrow()

    def discard(self) -> None:
        """Remove the files, when nobody reads them any more."""
        with self.lock:
            for slot in self.slots:
                slot.remove()


@dataclass(frozen=True, eq=False)
class Run:
    """A prepared query over the rows of the moment."""

    query: Query
    given: tuple[Given, ...]

    def __call__(self) -> pa.Table:
        return self.query.run(self.given)


@dataclass(eq=False)
class _Entry:
    """A query, or None if the text cannot be run twice, and how many texts had come when it was last asked."""

    query: Query | None
    asked_at: int


class PreparedQueries:
    """The queries that a lake has prepared. Their files go when it is closed."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._seen: set[int] = set()
        self._asked = 0
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def runs(self, spark: SparkSession, texts: Sequence[Text]) -> list[Run | None]:
        """How to run each of the texts under the session's present settings; None for one that is not prepared."""
        if not any(each.few for each in texts) or not _shares_our_disk(spark):
            return [None] * len(texts)
        settings = _settings(spark)
        numbered = [_numbered(each, settings) for each in texts]
        unknown = list(dict.fromkeys(each[0] for each in numbered if each is not None and self._is_due(each[0])))
        for key, query in zip(unknown, side_by_side(spark, partial(self._prepared, spark), unknown), strict=True):
            self._keep(key, query)
        return [None if each is None else self._run(*each) for each in numbered]

    def close(self) -> None:
        """Forget all."""
        with self._lock:
            self._entries.clear()
            self._seen.clear()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def __len__(self) -> int:
        """How many queries are prepared."""
        with self._lock:
            return sum(each.query is not None for each in self._entries.values())

    def _is_due(self, key: Key) -> bool:
        """Whether the text was seen before, is not prepared yet, and there is room for it."""
        with self._lock:
            self._asked += 1
            if key in self._entries:
                return False
            seen = hash(key)
            if seen in self._seen:
                return self._has_room()
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(seen)
            return False

    def _has_room(self) -> bool:
        if len(self._entries) < self._most:
            return True
        oldest = next(iter(self._entries.values()))
        return self._asked - oldest.asked_at > IDLE * self._most

    def _run(self, key: Key, given: tuple[Given, ...]) -> Run | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            entry.asked_at = self._asked
            self._entries.move_to_end(key)
            return None if entry.query is None else Run(entry.query, given)

    def _keep(self, key: Key, query: Query | None) -> None:
        with self._lock:
            self._entries[key] = _Entry(query, self._asked)
            surplus = len(self._entries) - self._most
            gone = [self._entries.popitem(last=False)[1] for _ in range(surplus)]
        for each in gone:
            if each.query is not None:
                each.query.discard()

    def _prepared(self, spark: SparkSession, key: Key) -> Query | None:
        """The query over new slots; None if it cannot be run twice."""
        try:
            if not means_the_same_each_time(spark, key.text):
                return None
            slots = tuple(Slot(self._new_path(), columns) for columns in key.slots)
            with quietly():
                frame = _planned(spark, key.text, slots)
                query = Query(frame, slots, threading.Lock())
                if starts_anew_each_time(frame):
                    return query
        except (PySparkException, Py4JError, AnabranchError, OSError):  # what is wrong is said when it is run
            return None
        query.discard()
        return None

    def _new_path(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="anabranch-slots-", ignore_cleanup_errors=True)
            return Path(self._folder.name) / f"{next(_number)}.parquet"


def _planned(spark: SparkSession, text: str, slots: Sequence[Slot]) -> DataFrame:
    """The text as a frame. It knows what the views stand for as soon as it is made."""
    views = [f"__ab_slots_{next(_number)}_" for _ in slots]
    try:
        for view, slot in zip(views, slots, strict=True):
            slot.frame(spark).createOrReplaceTempView(view)
        return spark.sql(_SLOT.sub(lambda found: quoted(views[int(found.group(1))]), text))
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def _numbered(text: Text, settings: str) -> tuple[Key, tuple[Given, ...]] | None:
    """The text with its views numbered as they come, and their rows; None if there are rows that no slot takes."""
    by_view = {quoted(each.view): each for each in text.given}
    if not by_view or not text.few or not all(fits(each.columns, each.table) for each in text.given):
        return None
    numbers: dict[str, int] = {}
    pattern = "|".join(map(re.escape, by_view))
    sql = re.sub(pattern, lambda found: f"`__ab_slot {numbers.setdefault(found.group(), len(numbers))}`", text.sql)
    given = tuple(by_view[view] for view in numbers)
    return Key(sql, tuple(each.columns for each in given), settings), given


def _shares_our_disk(spark: SparkSession) -> bool:
    """Whether who runs queries reads our files, and may: not where Spark encrypts what it writes."""
    if is_remote(spark):
        return False
    context = spark.sparkContext
    return str(context.master).startswith("local") and not context._encryption_enabled


def _settings(spark: SparkSession) -> str:
    """All that the session has set, as one text: asked one by one they would be a hundred calls."""
    session: Any = spark._jsparkSession
    return str(session.sessionState().conf().getAllConfs().toString())
