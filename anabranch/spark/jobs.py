"""How many jobs and stages a piece of work took. Over Spark Connect nobody can tell, and the counts are None."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GROUP = "spark.jobGroup.id"
_CALL_SITE = "callSite.long"
"""Spark looks where in the program it was called, for every operator of a plan, unless somebody has said it."""
_LISTENER_MILLISECONDS = 5_000
_number = itertools.count()


@dataclass
class JobCount:
    """The jobs that ran inside `count_jobs`, on its own thread and on those that entered `on_this_thread`."""

    spark: SparkSession
    group: str = field(default_factory=lambda: f"__ab_{os.getpid()}_{next(_number)}")

    @property
    def jobs(self) -> int | None:
        return None if is_remote(self.spark) else len(self._job_ids())

    @property
    def stages(self) -> int | None:
        """Stages that ran or were skipped because their output was there already."""
        if is_remote(self.spark):
            return None
        tracker = self.spark.sparkContext.statusTracker()
        infos = (tracker.getJobInfo(job) for job in self._job_ids())
        return sum(len(info.stageIds) for info in infos if info is not None)

    @contextmanager
    def on_this_thread(self) -> Iterator[None]:
        """Count the jobs that this thread starts, too."""
        if is_remote(self.spark):
            yield
            return
        context = self.spark.sparkContext
        before = {key: context.getLocalProperty(key) for key in (_GROUP, _CALL_SITE)}
        for key in before:
            context.setLocalProperty(key, self.group)
        try:
            yield
        finally:
            for key, value in before.items():
                context.setLocalProperty(key, value)  # type: ignore[arg-type]

    def _job_ids(self) -> list[int]:
        context = self.spark.sparkContext
        with suppress(Exception):  # the events of a finished job may still be under way
            context._jsc.sc().listenerBus().waitUntilEmpty(_LISTENER_MILLISECONDS)
        return list(context.statusTracker().getJobIdsForGroup(self.group))


@contextmanager
def count_jobs(spark: SparkSession) -> Iterator[JobCount]:
    """Count the Spark jobs of a block of code; read the counts afterwards."""
    count = JobCount(spark)
    with count.on_this_thread():
        yield count


def count_scans(frame: DataFrame) -> int | None:
    """How often the frame's physical plan reads files; None over Connect."""
    if is_remote(frame.sparkSession):
        return None
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan.count("FileScan ") + plan.count("BatchScan ")
