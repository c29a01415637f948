"""Random histories of a table written by us and by an outside client: every snapshot and every change stays exact."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anabranch.algebra.relation import IS_THERE, WAS_THERE
from anabranch.store.ducklake import DuckLakeStore
from anabranch.store.protocol import ROWID, WEIGHT, Version
from anabranch.store.transaction import Transaction

from .histories import STEPS, follow, run
from .machine import LakeMachine, TheirFaultError
from .tools import canonical, change, counted, difference

NAMES = [name for name, weight in STEPS for _ in range(weight)]


@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(seed=st.integers(0, 2**32), names=st.lists(st.sampled_from(NAMES), min_size=30, max_size=40))
def test_every_snapshot_and_every_change(seed: int, names: list[str]) -> None:
    """Contents of all kept snapshots, row ids as DuckLake sees them, and changes between any two of them."""
    with tempfile.TemporaryDirectory() as folder:
        follow(LakeMachine(Path(folder) / "lake", seed), names)


def test_a_history_in_postgres(tmp_path: Path, new_postgres_catalog: object) -> None:
    assert callable(new_postgres_catalog)
    run(tmp_path / "lake", seed=5, steps=25, pairs=3, catalog=new_postgres_catalog()).close()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_long_histories(seed: int, tmp_path: Path) -> None:
    run(tmp_path / "lake", seed, steps=60, pairs=6).close()


def check_through_spark(machine: LakeMachine, store: DuckLakeStore) -> None:
    """Some snapshots and changes, as Spark reads them."""
    numbers = sorted(machine.model)
    chosen = {numbers[-1], machine.random.choice(numbers)}
    for number in chosen:
        state = machine.model[number]
        assert counted(store.read(machine.table_id, Version(number))) == state.shown(state.columns), number
        found = store.read(machine.table_id, Version(number), rowid=True).collect()
        ids = {row[ROWID]: canonical(tuple(row)[:-1]) for row in found}
        assert ids == {row: values for _, row, values in machine.evaluated(number)}
        assert store.row_count(machine.table_id, Version(number)) == len(found)
    since, upto = machine.random.choice(numbers), machine.random.choice(numbers)
    columns = machine.model[upto].columns
    expected = difference(machine.model[upto].shown(columns), machine.model[since].shown(columns))
    assert change(store, machine.table_id, Version(since), Version(upto)) == expected, (since, upto)


def check_files_as_they_are(machine: LakeMachine, store: DuckLakeStore) -> int:
    """Rows read with their addresses, of which the driver tells where they are: as read one snapshot at a time."""
    numbers = sorted(machine.model)
    pairs = [sorted(Version(machine.random.choice(numbers)) for _ in range(2)) for _ in range(12)]
    possible = ((pair, store.read_raw(machine.table_id, *pair)) for pair in pairs)
    (since, upto), raw = next((each for each in possible if each[1] is not None), (pairs[0], None))
    if raw is None:
        return 0
    told = raw.told(pa.concat_tables([frame().toArrow() for frame in raw.frames]))
    for version, flag in ((since, WAS_THERE), (upto, IS_THERE)):
        expected = store.read(machine.table_id, version, rowid=True).toArrow()
        found = told.filter(told.column(flag)).select(expected.column_names)
        assert by_rowid(found) == by_rowid(expected), (since, upto, flag)
    return told.num_rows


def by_rowid(rows: pa.Table) -> dict[int, str]:
    return {each.pop(ROWID): str(each) for each in rows.to_pylist()}


def write_through_transaction(machine: LakeMachine, store: DuckLakeStore) -> None:
    """Several deletes and inserts, each seeing the ones before, as one snapshot."""
    work = Transaction(store)
    for _ in range(2):
        present = work.read("t", rowid=True).toArrow()
        chosen = [each for each in range(present.num_rows) if machine.random.random() < 0.3]
        gone = present.take(pa.array(chosen, pa.int64()))
        values = gone.drop_columns([ROWID]).to_pydict().values()
        rows = machine.state.new_rows(machine.random, machine.random.randint(0, 4))
        work.write("t", deletes=gone.column(ROWID), inserts=machine.state.arrow(rows))
        deleted = Counter(canonical(row) for row in zip(*values, strict=True))
        machine.state = machine.state.without(deleted).with_rows(rows)
    state = machine.state
    assert counted(work.read("t")) == state.shown(state.columns)
    assert WEIGHT not in work.read("t").columns
    work.commit()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_histories_through_spark(store: DuckLakeStore, folder: str, seed: int) -> None:
    machine = LakeMachine(Path(folder), seed)
    machine.transaction = lambda: write_through_transaction(machine, store)
    names = [*NAMES, *["transaction"] * 6]
    told = 0
    try:
        for number in range(70):
            machine.step(machine.random.choice(names))
            if number % 10 == 9:
                check_through_spark(machine, store)
                told += check_files_as_they_are(machine, store)
        assert told > 0
    except TheirFaultError:
        pass
    finally:
        machine.close()
