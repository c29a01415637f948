"""Writers for tests of concurrency: each process does its operations and prints what it did."""

from __future__ import annotations

import json
import sys
import traceback

import pyarrow as pa

from anabranch.errors import ConflictError
from anabranch.store.protocol import ROWID, Commit, DocumentIs, Write

from .crash_child import BareLake

COUNTER = "counter"


def insert(lake: BareLake, key: str, writer: int, number: int) -> None:
    """A row that no other writer inserts."""
    lake.committer.commit(Commit((Write(key, inserts=(pa.table({"a": [(writer + 1) * 1_000_000 + number]}),)),)))


def count(lake: BareLake, key: str, writer: int, number: int) -> None:
    """Read a document, write it plus one, as long as nobody else did: a lost update would be seen."""
    while True:
        before = lake.documents.at(lake.head()).get(COUNTER)
        after = str(int(before or "0") + 1)
        try:
            lake.committer.commit(
                Commit((), (DocumentIs(COUNTER, before),), {COUNTER: after}, ({"tick_id": f"{writer}-{number}"},))
            )
            return
        except ConflictError:
            continue


def move(lake: BareLake, key: str, writer: int, number: int) -> None:
    """Take the least row out and put one that is larger in: two movers must not take the same one."""
    while True:
        head = lake.head()
        rows = lake.rows(key, head)
        values = sorted(zip(rows.column("a").to_pylist(), rows.column(ROWID).to_pylist(), strict=True))
        least, rowid = values[0]
        write = Write(key, pa.array([rowid], pa.int64()), (pa.table({"a": [least + 1_000]}),), since=head)
        try:
            lake.committer.commit(Commit((write,)))
            return
        except ConflictError:
            continue


def compact(lake: BareLake, key: str, writer: int, number: int) -> None:
    lake.maintainer.compact()


OPERATIONS = {"insert": insert, "count": count, "move": move, "compact": compact}


def main() -> None:
    order = json.loads(sys.argv[1])
    lake = BareLake(order["folder"], order["catalog"], grace_seconds=3600.0)
    key = lake.table("t")
    assert key is not None
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        for number in range(order["times"]):
            for name in order["operations"]:
                OPERATIONS[name](lake, key, order["writer"], number)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        sys.exit(1)
    lake.close()


if __name__ == "__main__":
    main()
