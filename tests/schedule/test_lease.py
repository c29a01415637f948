"""Leases: one holder, take-over when it dies."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from anabranch.schedule.lease import FileLease, Lease, PostgresLease

HOLDING_PROCESS = """
import sys, time
from anabranch.schedule.lease import FileLease
lease = FileLease(sys.argv[1])
assert lease.acquire()
print("held", flush=True)
time.sleep(20)
"""


def test_a_file_lease_has_one_holder(tmp_path: Path) -> None:
    check_one_holder(FileLease(tmp_path / "lease"), FileLease(tmp_path / "lease"))


def check_one_holder(one: Lease, other: Lease) -> None:
    assert one.acquire()
    assert one.acquire()
    assert not other.acquire()
    assert not other.renew()
    holder = other.holder()
    assert holder is not None
    assert holder.process == os.getpid()
    other.release()
    assert one.renew()
    one.release()
    assert other.holder() is None
    assert other.acquire()
    assert not one.renew()
    other.release()


def test_a_file_lease_ends_with_its_process_however_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    command = [sys.executable, "-c", HOLDING_PROCESS, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        lease = FileLease(path)
        assert not lease.acquire()
        holder = lease.holder()
        assert holder is not None
        assert holder.process == process.pid
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert lease.holder() is None
        assert lease.acquire()
        lease.release()


def test_a_torn_note_of_the_holder_is_no_error(tmp_path: Path) -> None:
    lease = FileLease(tmp_path / "lease")
    lease.acquire()
    (tmp_path / "lease.json").write_text("{")
    assert FileLease(tmp_path / "lease").holder() is None
    lease.release()


def in_duckdb(connection: duckdb.DuckDBPyConnection, statement: str) -> list[tuple[object, ...]]:
    """DuckDB understands the same statements, so the logic is checked where no server is."""
    result = connection.execute(statement)
    return result.fetchall() if statement.startswith("SELECT") else []


def test_a_row_lease_has_one_holder_and_expires() -> None:
    connection = duckdb.connect()

    def lease(seconds: float) -> PostgresLease:
        return PostgresLease(lambda statement: in_duckdb(connection, statement), "the 'lake'", seconds)

    check_one_holder(lease(30), lease(30))
    dead, heir = lease(0.2), lease(0.2)
    assert dead.acquire()
    assert not heir.acquire()
    time.sleep(0.3)
    assert heir.holder() is None
    assert heir.acquire()
    assert not dead.renew()


def test_leases_of_two_lakes_are_apart() -> None:
    connection = duckdb.connect()
    leases = [PostgresLease(lambda statement: in_duckdb(connection, statement), lake) for lake in ("a", "b")]
    assert all(lease.acquire() for lease in leases)


def postgres_programs() -> Path | None:
    return next((path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A server of its own, reached by psql through a socket; it refuses to run as root."""
    programs = postgres_programs()
    if programs is None or shutil.which("psql") is None:
        pytest.skip("PostgreSQL is not installed on this machine")
    folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/anabranch-lease-XXXXXX"], text=True).strip())
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    as_user = ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(folder, user)
    data, log = folder / "data", folder / "log"
    run_quietly([*as_user, str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", user, "--no-sync"])
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    run_quietly([*as_user, str(programs / "pg_ctl"), "-D", str(data), "-l", str(log), "-o", options, "-w", "start"])
    try:
        yield [*as_user, "psql", "-h", str(folder), "-U", user, "-d", "postgres", "-qAt", "-F", "\t"]
    finally:
        run_quietly([*as_user, str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop"])
        shutil.rmtree(folder)


def run_quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")


def test_a_row_lease_in_postgres(postgres: list[str]) -> None:
    def execute(statement: str) -> list[tuple[object, ...]]:
        out = subprocess.check_output([*postgres, "-c", statement], text=True, cwd="/", stderr=subprocess.DEVNULL)
        rows = [line.split("\t") for line in out.splitlines()]
        return [tuple(int(each) if each.isdigit() else each for each in row) for row in rows]

    check_one_holder(PostgresLease(execute, "the 'lake'", 30), PostgresLease(execute, "the 'lake'", 30))
    dead, heir = PostgresLease(execute, "lake", 1.0), PostgresLease(execute, "lake", 30)
    assert dead.acquire()
    assert not heir.acquire()
    time.sleep(1.1)
    assert heir.acquire()
    assert not dead.renew()
