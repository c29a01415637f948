"""Queries over few rows that are planned once and run at each tick, several of them as one job.

    key = the text with its views numbered, their columns, the session's settings

A tick asks what the last one asked, over other rows, and to parse, analyse and plan it anew takes longer than to run
it. A text that comes for the second time is planned over slots: files that get the rows of the moment before each run.
The first time it is run as any other, because many are never asked again. Those that cannot be run twice are
remembered, too.

Texts that come together are planned as one query, whose job costs less than one for each. A text that is not asked for
gets no rows; a query of which little is asked is planned anew, with those that its texts come with by then.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
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
from anabranch.spark.side_by_side import apportioned, side_by_side
from anabranch.spark.slots import Slot, SlotFullError, fits
from anabranch.spark.tagged import tagged, taken_apart
from anabranch.spark.texts import Given, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 400
"""So many texts are kept, a few hundred kilobytes of Java each."""
IDLE = 10
"""One makes room for another if it was not asked while so many times `most` others were: where more than fit are asked
in turn, those that are kept stay, and the others run as any other."""
MOST_SEEN = 20_000
GROUPS = 3
"""Texts that come together are planned as so many queries, which run side by side."""
TRIED = 4
"""After so many runs less than half of what a query gives must have been asked for to plan it anew."""
_SLOT = re.compile(r"`__ab_slot (\d+)`")
_number = count()


@dataclass(frozen=True)
class Key:
    """What a plan depends on."""

    text: str
    slots: tuple[tuple[Column, ...], ...]
    columns: tuple[Column, ...]
    settings: str


@dataclass(eq=False)
class Query:
    """Texts that are planned as one, and the slots of each, which one thread at a time may fill.

    Without a frame they cannot be run twice. `asked_at`: how many texts had come when one of them was last asked.
    """

    keys: tuple[Key, ...]
    slots: tuple[tuple[Slot, ...], ...] = ()
    frame: DataFrame | None = None
    asked_at: int = 0
    runs: int = 0
    asked: int = 0
    is_discarded: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, given: Mapping[Key, Sequence[Given]]) -> dict[Key, pa.Table]:
        """The results over these rows, one table for each slot; none at all if they do not fit, or it is discarded."""
        with self._lock:
            if self.frame is None or self.is_discarded:
                return {}
            try:
                self._fill(given)
            except SlotFullError:
                return {}
            tables = taken_apart(self.frame.toArrow(), [each.columns for each in self.keys])
            self.runs += 1
            self.asked += len(given)
            for slot in self._all_slots:
                slot.clear_if_large()
        return {key: table for key, table in zip(self.keys, tables, strict=True) if key in given}

    def _fill(self, given: Mapping[Key, Sequence[Given]]) -> None:
        for key, slots in zip(self.keys, self.slots, strict=True):
            for place, slot in enumerate(slots):
                if key in given:
                    slot.fill(given[key][place].table)
                else:
                    slot.clear()

    @property
    def _all_slots(self) -> Iterator[Slot]:
        return (slot for slots in self.slots for slot in slots)

    @property
    def is_seldom_asked_as_a_whole(self) -> bool:
        return self.runs >= TRIED and 2 * self.asked < self.runs * len(self.keys)

    def discard(self) -> None:
        """Remove the files, when nobody reads them any more."""
        with self._lock:
            self.is_discarded = True
            for slot in self._all_slots:
                slot.remove()


@dataclass(frozen=True)
class Run:
    """A query over the rows of the moment; by text that is asked for, the place of what it gives."""

    queries: PreparedQueries
    query: Query
    given: dict[Key, tuple[Given, ...]] = field(default_factory=dict)
    by_key: dict[Key, int] = field(default_factory=dict)

    @property
    def places(self) -> list[int]:
        return list(self.by_key.values())

    def __call__(self) -> dict[int, pa.Table]:
        """The tables by place. None at all if they have to be had otherwise.

        A text over no rows may raise though nobody asked for it.
        """
        try:
            tables = self.query.run(self.given)
        except (PySparkException, Py4JError):
            if len(self.given) == len(self.query.keys):
                raise
            self.queries.take_apart(self.query)
            return {}
        return {place: tables[key] for key, place in self.by_key.items() if key in tables}


class PreparedQueries:
    """The queries that a lake has prepared. Their files go when it is closed."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._seen: set[int] = set()
        self._alone: set[Key] = set()
        self._asked = 0
        self._queries: OrderedDict[Query, None] = OrderedDict()
        self._by_key: dict[Key, Query] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def runs(self, spark: SparkSession, texts: Mapping[int, Text]) -> list[Run]:
        """How to run the texts, each at a place, under the session's present settings; some may not be prepared."""
        if not any(each.few for each in texts.values()) or not _shares_our_disk(spark):
            return []
        settings = _settings(spark)
        found = ((place, each, _numbered(each, settings)) for place, each in texts.items())
        numbered = [(place, each, *known) for place, each, known in found if known is not None]
        due = {key: text.size for _, text, key, _ in numbered if self._is_due(key)}
        groups = self._grouped(dict(islice(due.items(), self._room())))
        for prepared in side_by_side(spark, partial(self._prepared, spark), groups):
            for query in prepared:
                self._keep(query)
        return self._filled((place, key, given) for place, _, key, given in numbered)

    def close(self) -> None:
        """Forget all."""
        for query in list(self._queries):
            self._forget(query)
        with self._lock:
            self._seen.clear()
            self._alone.clear()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def take_apart(self, query: Query) -> None:
        """Its texts will be planned one by one."""
        with self._lock:
            self._alone.update(query.keys)
        self._forget(query)

    def __len__(self) -> int:
        """How many texts are prepared."""
        with self._lock:
            return sum(each.frame is not None for each in self._by_key.values())

    def _is_due(self, key: Key) -> bool:
        """Whether the text was seen before and is not prepared yet."""
        with self._lock:
            self._asked += 1
            if key in self._by_key:
                return False
            seen = hash(key)
            if seen in self._seen:
                return True
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
                self._alone.clear()
            self._seen.add(seen)
            return False

    def _room(self) -> int:
        """How many more texts may be kept, those that nobody asks any more not counted."""
        with self._lock:
            stale = self._asked - IDLE * self._most
            kept = sum(len(each.keys) for each in self._queries if each.asked_at >= stale)
        return max(0, self._most - kept)

    def _grouped(self, sizes: Mapping[Key, int]) -> list[list[Key]]:
        alone = [[key] for key in sizes if key in self._alone]
        others = {key: size for key, size in sizes.items() if key not in self._alone}
        return alone + apportioned(others, min(GROUPS, -(-len(others) // 2)))

    def _filled(self, asked: Iterator[tuple[int, Key, tuple[Given, ...]]]) -> list[Run]:
        """What is asked for, query by query. A text that is asked twice takes two runs."""
        runs: list[Run] = []
        for place, key, given in asked:
            query = self._query_of(key)
            if query is None:
                continue
            run = next((each for each in runs if each.query is query and key not in each.given), None)
            if run is None:
                run = Run(self, query)
                runs.append(run)
            run.given[key] = given
            run.by_key[key] = place
        for query in {each.query for each in runs if each.query.is_seldom_asked_as_a_whole}:
            self._forget(query)
        return [each for each in runs if not each.query.is_seldom_asked_as_a_whole]

    def _query_of(self, key: Key) -> Query | None:
        with self._lock:
            query = self._by_key.get(key)
            if query is None:
                return None
            query.asked_at = self._asked
            self._queries.move_to_end(query)
            return None if query.frame is None else query

    def _keep(self, query: Query) -> None:
        """Another thread may have planned the same texts."""
        for known in {self._by_key[key] for key in query.keys if key in self._by_key}:
            self._forget(known)
        with self._lock:
            query.asked_at = self._asked
            self._queries[query] = None
            self._by_key.update(dict.fromkeys(query.keys, query))
        while len(self._by_key) > self._most and len(self._queries) > 1:
            self._forget(next(iter(self._queries)))

    def _forget(self, query: Query) -> None:
        with self._lock:
            self._queries.pop(query, None)
            for key in query.keys:
                if self._by_key.get(key) is query:
                    del self._by_key[key]
        query.discard()

    def _prepared(self, spark: SparkSession, keys: Sequence[Key]) -> list[Query]:
        """Queries over new slots: one for all texts, or one for each if some cannot be run twice."""
        query = self._planned(spark, keys)
        if query is not None:
            return [query]
        if len(keys) == 1:
            return [Query(tuple(keys))]
        return [query for key in keys for query in self._prepared(spark, [key])]

    def _planned(self, spark: SparkSession, keys: Sequence[Key]) -> Query | None:
        """The texts as one query; None if it cannot be run twice."""
        if not all(means_the_same_each_time(spark, each.text) for each in keys):
            return None
        slots = tuple(tuple(Slot(self._new_path(), columns) for columns in each.slots) for each in keys)
        query = Query(tuple(keys), slots)
        try:
            with quietly():
                query.frame = _frame(spark, query)
                if starts_anew_each_time(query.frame):
                    return query
        except (PySparkException, Py4JError, AnabranchError, OSError):  # what is wrong is said when it is run
            pass
        query.discard()
        return None

    def _new_path(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="anabranch-slots-", ignore_cleanup_errors=True)
            return Path(self._folder.name) / f"{next(_number)}.parquet"


def _frame(spark: SparkSession, query: Query) -> DataFrame:
    """The texts as one frame. It knows what the views stand for as soon as it is made."""
    views: list[str] = []

    def text_over(key: Key, slots: Sequence[Slot]) -> str:
        own = [f"__ab_slots_{next(_number)}_" for _ in slots]
        views.extend(own)
        for view, slot in zip(own, slots, strict=True):
            slot.frame(spark).createOrReplaceTempView(view)
        return _SLOT.sub(lambda found: quoted(own[int(found.group(1))]), key.text)

    try:
        texts = [Text(text_over(*each), each[0].columns) for each in zip(query.keys, query.slots, strict=True)]
        return spark.sql(tagged(texts, tasks=1))
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
    return Key(sql, tuple(each.columns for each in given), text.columns, settings), given


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
