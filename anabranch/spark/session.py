"""The Spark sessions we run in."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from anabranch.errors import SettingError

QUIET = Path(__file__).with_name("log4j2.properties").as_uri()
LOCAL_SETTINGS = {
    "spark.master": "local[*]",
    "spark.app.name": "anabranch",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ui.retainedExecutions": "10",  # Spark keeps the plans of so many, megabytes each, though nobody looks
    "spark.driver.memory": "4g",
    "spark.buffer.pageSize": "4m",  # Spark would take 64 megabytes for each sort, most of which are of a few rows
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "FATAL",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET}",
}
EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
LOSES_SESSIONS = "org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAggregates"
"""Takes session windows for groups of equal values: below MIN, MAX or DISTINCT, sessions are not merged any more."""
UNSOUND_RULES = (
    LOSES_SESSIONS,
    "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset",
    "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion",
    "org.apache.spark.sql.catalyst.optimizer.CombineUnions",
)
"""Rules of Spark 4.2 that are wrong. All but the first move a subquery of the SELECT list. Below a LIMIT its join loses
the order that is cut; into a UNION, such as a table of several files is read by, it ends with NoSuchElementException.
"""
WITHOUT_CONSTRAINTS = {"spark.sql.constraintPropagation.enabled": "false"}
"""Spark 4.2 fails on what it infers of a subquery among the outputs of a query that is one side of a union, and
infers two to the power of n conditions of one that names n columns, below a SELECT that renames them."""
SLOT_BYTES = 16 * 1024 * 1024
"""The size of the files that prepared queries read (slots.py), nearly all of it a hole that takes no room."""
FOR_SMALL_CHANGES = {
    # Every broadcast is a job of its own; where it is worth it there is a hint.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Plans of changes are wide sums of joins, and inferring constraints takes longer than anything else.
    **WITHOUT_CONSTRAINTS,
    # Moved below where rows are gathered, a semi-join would have to shuffle them.
    # A sum that is read twice would become a subquery, which keeps its result with the plan.
    # Such plans have no subqueries, so that the other unsound rules are sound here.
    EXCLUDED_RULES: (
        f"{LOSES_SESSIONS},"
        "org.apache.spark.sql.catalyst.optimizer.MergeSubplans,"
        "org.apache.spark.sql.catalyst.optimizer.PushDownLeftSemiAntiJoin,"
        "org.apache.spark.sql.catalyst.optimizer.PushLeftSemiLeftAntiThroughJoin"
    ),
    # Spark looks at the whole plan again after every rule that changed it.
    "spark.sql.lightweightPlanChangeValidation": "false",
    # The estimated size of joins multiplies; rows at hand stay where they are whatever it says.
    "spark.sql.maxSinglePartitionBytes": str(2**62),
}
FOR_FEW_ROWS = {
    **FOR_SMALL_CHANGES,
    # Generating and compiling code takes longer than working through a few thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A slot is read by one task, however large it looks.
    "spark.sql.files.openCostInBytes": str(SLOT_BYTES),
}
OLDEST_JAVA = 17
INSTALL_JAVA = (
    "Install it with `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "`dnf install java-17-openjdk-headless` (Fedora, RHEL) or `brew install openjdk@17` (macOS), "
    "and set JAVA_HOME if it is not on the PATH."
)


def local_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session in this process, with settings for small and medium inputs on few cores."""
    check_java()
    builder = SparkSession.builder
    for key, value in {**LOCAL_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    with keeping_ctrl_c():
        return builder.getOrCreate()


@contextmanager
def keeping_ctrl_c() -> Iterator[None]:
    """Spark sets a handler of its own for Ctrl-C when it starts; afterwards the program's is there again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def shared_local_session() -> SparkSession:
    """The local session that all lakes of this process share; each that asked for it calls `leave_local_session`."""
    with _lakes.lock:
        if _lakes.count == 0:
            _lakes.own = not _is_running()
        session = local_session()
        _lakes.count += 1
        return session


def _is_running() -> bool:
    """Whether somebody in this process has started Spark, on whatever thread: the active session is one thread's."""
    core: Any = sys.modules.get("pyspark.core.context")
    started = core is not None and core.SparkContext._active_spark_context is not None
    return started or SparkSession.getActiveSession() is not None


def leave_local_session() -> None:
    """The last lake to leave stops Spark, unless somebody else had started it."""
    with _lakes.lock:
        _lakes.count -= 1
        if _lakes.count == 0 and _lakes.own:
            local_session().stop()


@dataclass
class _Lakes:
    """How many lakes use the local session, and whether the first of them started it."""

    count: int = 0
    own: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


_lakes = _Lakes()


def private_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session of our own beside the user's, with these settings: neither sees the other's settings and views."""
    if is_remote(spark):
        spark.conf.get("spark.sql.session.timeZone")  # the server knows a session only once it was asked something
        session: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]
    else:
        session = spark.newSession()
    exclude_unsound_rules(session)
    configure(session, settings)
    return session


def exclude_unsound_rules(session: SparkSession) -> None:
    """Beside the rules that are excluded already."""
    others = session.conf.get(EXCLUDED_RULES, None)
    session.conf.set(EXCLUDED_RULES, ",".join((*([others] if others else []), *UNSOUND_RULES)))


def kept_by_executors(frame: DataFrame) -> DataFrame:
    """The frame, computed now; the executors keep its rows as long as somebody holds it."""
    if not is_remote(frame.sparkSession):
        return frame.localCheckpoint()
    connect: Any = type(frame.sparkSession)
    active = connect._active_session  # Connect hands the result to the active session, not to the frame's
    before = getattr(active, "session", None)
    active.session = frame.sparkSession
    try:
        return frame.localCheckpoint()
    finally:
        active.session = before


def configure(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set what a definition asks for (time zone, ANSI, case sensitivity ...) in a session of ours."""
    for key, value in settings.items():
        session.conf.set(key, value)


def cancel_jobs(session: SparkSession) -> None:
    """Stop what the session is running."""
    if is_remote(session):
        session.interruptAll()
    else:
        session.sparkContext.cancelAllJobs()


@contextmanager
def tuned(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Inside, the session has these settings, which change how fast something is computed, never what.

    What an enclosing `tuned` has set already is not asked for, set and restored again: each is a call to Spark.
    """
    known = _tuned.setdefault(session, {})
    changed = {key: value for key, value in settings.items() if known.get(key) != value}
    before = {key: known[key] if key in known else session.conf.get(key) for key in changed}
    outside = dict(known)
    configure(session, changed)
    known.update(changed)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, value)
        known.clear()
        known.update(outside)


_tuned: WeakKeyDictionary[SparkSession, dict[str, str]] = WeakKeyDictionary()
"""By session, what the `tuned` that it is in has set."""


def is_remote(spark: SparkSession) -> bool:
    """Whether the session speaks to a server over Spark Connect, where there are no jobs or JVM to look at."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def shares_disk(spark: SparkSession) -> bool:
    """Whether executors are threads of a process on this machine, so that they see its files."""
    return not is_remote(spark) and str(spark.sparkContext.master).startswith("local")


def check_java() -> None:
    """Raise JAVA_MISSING, with the command that installs it, unless Spark will find Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    where = f"JAVA_HOME is {home!r}" if home else "JAVA_HOME is not set and there is no `java` on the PATH"
    if java is None or not os.access(java, os.X_OK):
        raise SettingError("JAVA_MISSING", f"Java {OLDEST_JAVA} or newer was not found", f"{where}.", INSTALL_JAVA)
    version = _java_version(java)
    if version is None:
        raise SettingError(
            "JAVA_MISSING", "Java was found but does not start", f"`{java} -version` fails.", INSTALL_JAVA
        )
    if version < OLDEST_JAVA:
        detail = f"`{java}` is Java {version}."
        raise SettingError("JAVA_MISSING", f"Java {OLDEST_JAVA} or newer is needed", detail, INSTALL_JAVA)


def _java_version(java: str) -> int | None:
    """The major version: 8 of `1.8.0_402`, 17 of `17.0.15`."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(java)))
    text = _release_file(home) or _version_output(java)
    found = re.search(r'"(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _release_file(home: str) -> str:
    """What the installation says of itself: reading it takes no time, starting a JVM does."""
    try:
        with open(os.path.join(home, "release"), encoding="utf-8") as release:
            found = re.search(r"^JAVA_VERSION=(.*)$", release.read(), re.MULTILINE)
            return found.group(1) if found else ""
    except OSError:
        return ""


def _version_output(java: str) -> str:
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return ""
