"""A writer that a test kills: numbered operations, each of which says in a document that it is done, or one commit.

It needs no Spark: where executors would write files, a stand-in does. The process that a test starts only forks
writers, so that a hundred of them cost one start.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.store.catalog import Catalog
from anabranch.store.changes import Planner
from anabranch.store.commit import Committer
from anabranch.store.crashpoints import reach
from anabranch.store.documents import DocumentReader
from anabranch.store.key_index import KeyIndexes
from anabranch.store.local import perform_locally
from anabranch.store.maintain import Maintainer
from anabranch.store.open import open_lake
from anabranch.store.protocol import MAIN, ROWID, Commit, CreateTable, StagedFiles, TableName, Version, Write
from anabranch.store.versions import Versions

from .tools import columns

DONE = "done"


class BareLake:
    """A lake without Spark."""

    def __init__(self, folder: str | Path, catalog: str | None = None, grace_seconds: float = 0.0) -> None:
        self.opened = open_lake(str(folder), catalog, True)
        self.catalog = Catalog(self.opened.connection, KeyIndexes(self.opened.index))
        self.planner = Planner(self.catalog)
        self.documents = DocumentReader(self.catalog, self.planner)
        self.versions = Versions(self.catalog, self.planner, self.documents)
        self.committer = Committer(self.catalog, self.documents, self.versions, self.opened.exclusive, 60.0)
        self.maintainer = Maintainer(self.catalog, self.versions, self.committer, self.opened, grace_seconds)

    def head(self) -> Version:
        return Version(self.catalog.head())

    def table(self, name: str) -> str | None:
        tables = self.catalog.tables(self.head())
        return next((key for key, each in tables.items() if (each.info.schema, each.info.name) == (MAIN, name)), None)

    def create(self, name: str, text: str) -> str:
        self.committer.commit(Commit((CreateTable(TableName(MAIN, name), columns(text)),)))
        found = self.table(name)
        assert found is not None
        return found

    def rows(self, key: str, at: Version | None = None) -> pa.Table:
        version = at or self.head()
        table = self.catalog.tables(version)[key]
        return perform_locally(self.catalog, table, self.planner.rows(table, version.number))

    def counted(self, key: str) -> Counter[Any]:
        return Counter(self.rows(key).column("a").to_pylist())

    def done(self) -> int:
        return int(self.documents.at(self.head()).get(DONE, "0"))

    def known_files(self) -> set[str]:
        """The files that the catalog knows, and those it will remove itself."""
        connection, known = self.opened.connection, set()
        for kind in ("ducklake_data_file", "ducklake_delete_file"):
            known |= {row[0] for row in connection.catalog(f"SELECT path FROM {kind}")}
        known |= {row[0] for row in connection.catalog("SELECT path FROM ducklake_files_scheduled_for_deletion")}
        return {path.rpartition("/")[2] for path in known}

    def close(self) -> None:
        self.opened.connection.close()


def expected(operations: int) -> Counter[Any]:
    """What the table holds after so many operations."""
    content: Counter[Any] = Counter()
    for number in range(1, operations + 1):
        match number % 5:
            case 1:
                content += Counter({number: 2})
            case 2:
                content[number - 1] -= 1
                content[number] += 1
            case 3:
                content += Counter({number: 3})
    return +content


def operate(lake: BareLake, key: str, number: int) -> None:
    """One operation; those that write rows say so in the same commit."""
    documents = {DONE: str(number)}
    match number % 5:
        case 1:
            lake.committer.commit(Commit((Write(key, inserts=(pa.table({"a": [number, number]}),)),), (), documents))
        case 2:
            head = lake.head()
            present = lake.rows(key, head)
            ids = [
                row
                for row, a in zip(present.column(ROWID).to_pylist(), present.column("a").to_pylist(), strict=True)
                if a == number - 1
            ]
            write = Write(key, pa.array(ids[:1], pa.int64()), (pa.table({"a": [number]}),), since=head)
            lake.committer.commit(Commit((write,), (), documents))
        case 3:
            lake.committer.commit(Commit((Write(key, inserts=(_stage(lake, [number] * 3),)),), (), documents))
        case 4:
            lake.committer.commit(Commit(documents=documents))
            lake.maintainer.compact()
        case 0:
            lake.committer.commit(Commit(documents=documents))
            lake.maintainer.expire(0.0, frozenset())


def _stage(lake: BareLake, values: list[int]) -> StagedFiles:
    """What executors do, with the same steps and leftovers."""
    reach("stage.before_write")
    place = lake.opened.staging / uuid.uuid4().hex
    place.mkdir()
    (place / "_SUCCESS").touch()
    path = place / f"staged-{place.name}-0.parquet"
    pq.write_table(pa.table({"a": values}), path)
    reach("stage.after_write")
    return StagedFiles((str(path),), len(values))


def work(folder: str, operations: int, crash_at: str, crash_in: int) -> None:
    """Go on from where the last writer ended."""
    lake = BareLake(folder)
    key = lake.table("t") or lake.create("t", "a bigint")
    print("ready", flush=True)
    for number in range(lake.done() + 1, operations + 1):
        if number == crash_in:
            os.environ["ANABRANCH_CRASH_AT"] = crash_at
        operate(lake, key, number)
        print(f"did {number}", flush=True)
    lake.close()


def make_commit(folder: str, commit: str, crash_at: str) -> None:
    """A commit that somebody else has worked out."""
    lake = BareLake(folder)
    os.environ["ANABRANCH_CRASH_AT"] = crash_at
    lake.committer.commit(pickle.loads(Path(commit).read_bytes()))
    lake.close()


def main() -> None:
    """For each order on standard input a process of its own; tells when it is ready and how it ended."""
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                make_commit(**order) if "commit" in order else work(**order)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(f"pid {child}", flush=True)
        _, status = os.waitpid(child, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
