"""Keeps the lake small: compacts tables, expires snapshots, removes lost files.

Files that a snapshot no longer needs are removed only after a grace period, because DataFrames are lazy: somebody may
still be about to read them. Files that no snapshot ever knew (a writer was killed) are found by their age.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from anabranch.store.catalog import Catalog
from anabranch.store.commit import Committer
from anabranch.store.compact import compact_tables
from anabranch.store.connection import LAKE, text
from anabranch.store.crashpoints import reach
from anabranch.store.moves import GRACE_SECONDS, clean_staging
from anabranch.store.open import Opened
from anabranch.store.protocol import Commit, TableAt, Version
from anabranch.store.versions import ANCHORS, Versions, anchors_text


class Maintainer:
    """Maintenance of one lake."""

    def __init__(
        self,
        catalog: Catalog,
        versions: Versions,
        committer: Committer,
        opened: Opened,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._catalog = catalog
        self._versions = versions
        self._committer = committer
        self._opened = opened
        self.grace_seconds = grace_seconds

    def compact(self) -> None:
        """Merge small files and rewrite those with many deletes; rows and their history stay as they are."""
        try:
            compact_tables(self._catalog, self._committer)
        finally:
            reach("compact.before_cleanup")
            self.clean()
            reach("compact.after_cleanup")

    def expire(self, older_than: float, keep: frozenset[Version | TableAt]) -> int:
        """Drop old snapshots and then the files that only they needed."""
        head = Version(self._catalog.head())
        entries = self._catalog.log.entries()
        limit = datetime.now(UTC) - timedelta(seconds=older_than)
        needed = {head.number} | self._needed(keep, head)
        doomed = [
            number for number, entry in entries.items() if number not in needed and _instant(entry.committed_at) < limit
        ]
        if not doomed:
            return 0
        reach("expire.before_anchor")
        self._anchor(set(doomed))
        reach("expire.before_expire")
        versions = ", ".join(str(number) for number in doomed)
        self._call(f"CALL ducklake_expire_snapshots({text(LAKE)}, versions => [{versions}])")
        reach("expire.before_cleanup")
        self.clean()
        reach("expire.after_cleanup")
        return len(doomed)

    def file_counts(self) -> dict[str, int]:
        """How many data files and delete files each table has now, by id."""
        data = "SELECT table_id, count(*) AS files FROM ducklake_data_file WHERE end_snapshot IS NULL GROUP BY table_id"
        # The delete file of a data file that is gone stays without an end.
        deletes = (
            "SELECT d.table_id, count(*) AS files FROM ducklake_delete_file d JOIN ducklake_data_file f"
            " ON f.data_file_id = d.data_file_id WHERE d.end_snapshot IS NULL AND f.end_snapshot IS NULL"
            " GROUP BY d.table_id"
        )
        files = f"{data} UNION ALL {deletes}"
        counted = self._catalog.connection.catalog(f"SELECT table_id, sum(files) FROM ({files}) f GROUP BY table_id")
        counts = {int(table): int(count) for table, count in counted}
        tables = self._catalog.tables(Version(self._catalog.head())).values()
        return {table.info.id: counts.get(table.number, 0) for table in tables}

    def clean(self) -> None:
        """Remove files that nobody needs any more, after the grace period."""
        limit = (datetime.now(UTC) - timedelta(seconds=self.grace_seconds)).strftime("%Y-%m-%d %H:%M:%S.%f+00")
        age = f"older_than => TIMESTAMPTZ {text(limit)}"
        self._call(f"CALL ducklake_cleanup_old_files({text(LAKE)}, {age})")
        self._call(f"CALL ducklake_delete_orphaned_files({text(LAKE)}, {age})")
        clean_staging(self._opened.staging, self.grace_seconds)
        self._catalog.indexes.clean(self._catalog.file_identities, self.grace_seconds)

    def _needed(self, keep: frozenset[Version | TableAt], head: Version) -> set[int]:
        """Snapshots that must stay. Of a table's versions the last snapshot before its next change serves best."""
        kept = self._catalog.log.entries()
        needed = set()
        for each in keep:
            table = self._catalog.table(each.table, head) if isinstance(each, TableAt) else None
            if table is None:
                needed.add(each.version.number if isinstance(each, TableAt) else each.number)
                continue
            assert isinstance(each, TableAt)
            same = [
                number
                for number in kept
                if number >= each.version.number and self._versions.of(table, Version(number)) <= each.version
            ]
            needed.add(max(same, default=each.version.number))
        return needed

    def _anchor(self, doomed: set[int]) -> None:
        """Store the versions of all tables at each snapshot that is about to be behind a gap."""
        kept = {number for number in self._catalog.log.entries() if number not in doomed}
        anchors = {}
        for number in kept:
            if number - 1 not in kept and number > 0:
                tables = self._catalog.tables(Version(number)).values()
                anchors[number] = {each.number: self._versions.of(each, Version(number)).number for each in tables}
        self._committer.commit(Commit(documents={ANCHORS: anchors_text(anchors)}, message="anchor table versions"))

    def _call(self, sql: str) -> None:
        """One maintenance call, tried again when another writer got in between."""
        self._committer.call(sql)


def _instant(stored: str) -> datetime:
    """The catalog's text of an instant, such as 2026-01-31 12:00:00.123456+00."""
    return datetime.fromisoformat(stored if not stored.endswith("+00") else stored + ":00")
