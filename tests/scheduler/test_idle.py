"""A tick in which nothing changed: no Spark job, milliseconds for a hundred nodes. An idle scheduler hardly works."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import replace
from statistics import median

import anabranch
from anabranch.definitions import CONDITION, FRONTIER, NODE, StreamTable
from anabranch.graph.frontier import THIS_COMMIT, to_json
from anabranch.pinned import Pinned
from anabranch.store.protocol import STATE, Commit, CreateTable, TableName

NODES = 100


def test_a_tick_without_changes_on_a_hundred_nodes_starts_no_job(lake: anabranch.Lake) -> None:
    make_hundred_nodes(lake)
    lake.refresh()
    reports = [lake.refresh() for _ in range(20)]
    for report in reports:
        assert len(report) == NODES
        assert {each.action for each in report.values()} == {"NO_DATA"}
        assert report.spark_jobs == 0
    seconds = median(_seconds_of(lake) for _ in range(20))
    print(f"\na tick without changes on {NODES} nodes: {seconds * 1000:.1f} ms, 0 Spark jobs")
    assert lake.history().num_rows == 3, "nothing was recorded for ticks that did nothing"


def test_an_idle_scheduler_uses_next_to_no_processor(lake: anabranch.Lake) -> None:
    make_hundred_nodes(lake)
    thread = threading.Thread(target=lake.run)
    thread.start()
    try:
        time.sleep(2.0)
        before = time.process_time()
        time.sleep(5.0)
        used = time.process_time() - before
    finally:
        lake.stop()
        thread.join(30)
    assert not thread.is_alive()
    print(f"\nan idle scheduler of {NODES} nodes used {used / 5:.1%} of a core")
    assert used < 0.5


def _seconds_of(lake: anabranch.Lake) -> float:
    started = time.perf_counter()
    lake.refresh()
    return time.perf_counter() - started


def make_hundred_nodes(lake: anabranch.Lake) -> None:
    """A chain and a diamond, made by Spark; the rest are copies of them, made by one commit."""
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, amount BIGINT)")
    lake.append("sales", [(1, "north", 10), (2, "south", 20)])
    lake.create_stream_table("region", "SELECT region, SUM(amount) AS total FROM sales GROUP BY region", "1h")
    lake.create_stream_table("large", "SELECT region, total FROM region WHERE total > 10", "1h")
    lake.create_stream_table("both", "SELECT r.region FROM region r JOIN large USING (region)", "1h")
    engine = lake._engine
    pinned = engine.pin()
    commit = Commit()
    for number in range(len(pinned.nodes), NODES, len(pinned.nodes)):
        commit = _with_copies(pinned, commit, number)
    engine.store.commit(commit)
    assert len(engine.pin().nodes) == NODES


def _with_copies(pinned: Pinned, commit: Commit, number: int) -> Commit:
    """The commit with one more copy of the nodes, each as far as the one it is made from."""
    ids = {old: uuid.uuid4().hex for old in pinned.nodes}
    tables, documents = [*commit.actions], {**commit.documents}
    for old in pinned.graph.order[: NODES - number]:
        node = pinned.nodes[old]
        made = _copy(node, f"{node.name}_{number}", ids)
        tables += [CreateTable(TableName(STATE, part.table), part.columns) for part in made.parts]
        frontier = pinned.frontiers[old]
        moved = replace(
            frontier,
            generations={ids[each]: at for each, at in frontier.generations.items()},
            inputs={ids.get(each, each): THIS_COMMIT if each in ids else at for each, at in frontier.inputs.items()},
        )
        documents[NODE + made.id] = made.to_json()
        documents[FRONTIER + made.id] = lambda at, moved=moved: to_json(moved.settled_at(at))
        documents[CONDITION + made.id] = pinned.documents[CONDITION + old]
    return Commit(tuple(tables), documents=documents)


def _copy(node: StreamTable, name: str, ids: dict[str, str]) -> StreamTable:
    parts = tuple(replace(part, table=f"{name}_{part.name}") for part in node.parts)
    inputs = tuple(ids.get(each, each) for each in node.inputs)
    return replace(node, id=ids[node.id], name=name, parts=parts, inputs=inputs)
