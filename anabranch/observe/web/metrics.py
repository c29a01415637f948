"""Numbers for Prometheus, in its text format: a pure function of what the page shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from anabranch.observe.web.model import LakeView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[Mapping[str, str], float]


def metrics(view: LakeView) -> str:
    """All metrics of a lake."""
    nodes, totals = view.nodes, view.totals
    states = Counter(node.state for node in nodes)
    last = [(node.name, node.last) for node in nodes if node.last is not None]
    tables = [({"table": each.name, "kind": "source"}, float(each.rows)) for each in view.sources]
    tables += [({"table": each.name, "kind": "stream_table"}, float(each.rows)) for each in nodes]
    blocks = [
        _block("snapshot", "gauge", "The lake's newest snapshot.", [({}, view.snapshot)]),
        _block("stream_tables", "gauge", "Stream tables by state.", [({"state": s}, n) for s, n in states.items()]),
        _block("rows", "gauge", "Rows of a table.", tables),
        _block("pending_rows", "gauge", "Changed rows that wait for a stream table, at most.", _per(view, "pending")),
        _block("staleness_seconds", "gauge", "Age of the oldest change not shown yet.", _per(view, "staleness")),
        _block("consecutive_errors", "gauge", "Failures in a row.", _per(view, "errors")),
        _block(
            "last_refresh_timestamp_seconds",
            "gauge",
            "When a stream table's last recorded refresh began.",
            [({"table": name}, datetime.fromisoformat(each.at).timestamp()) for name, each in last],
        ),
        _block(
            "last_refresh_seconds",
            "gauge",
            "How long it took.",
            [({"table": name, "action": each.action}, each.seconds) for name, each in last],
        ),
        _block(
            "scheduler_running", "gauge", "1 if a scheduler runs.", [({}, float(view.scheduler.state == "RUNNING"))]
        ),
        _block("ticks_total", "counter", "Ticks of this process that committed.", [({}, totals.ticks)]),
        _block("lost_ticks_total", "counter", "Ticks of this process that failed.", [({}, totals.lost_ticks)]),
        _block("spark_jobs_total", "counter", "Spark jobs of this process's ticks.", [({}, totals.spark_jobs)]),
        _block("tick_seconds_total", "counter", "Seconds spent in this process's ticks.", [({}, totals.seconds)]),
        _block(
            "refreshes_total",
            "counter",
            "Stream tables refreshed by this process, by action.",
            [({"action": action}, number) for action, number in sorted(totals.refreshes.items())],
        ),
    ]
    return "".join(blocks)


def _per(view: LakeView, what: str) -> list[Sample]:
    now = datetime.fromisoformat(view.taken_at)
    samples: list[Sample] = []
    for node in view.nodes:
        since = node.behind_since
        staleness = 0.0 if since is None else max(0.0, (now - datetime.fromisoformat(since)).total_seconds())
        values = {"pending": node.pending_rows, "staleness": staleness, "errors": node.consecutive_errors}
        samples.append(({"table": node.name}, values[what]))
    return samples


def _block(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> str:
    full = f"anabranch_{name}"
    lines = [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
    for labels, value in samples:
        listed = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{full}{f'{{{listed}}}' if listed else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
