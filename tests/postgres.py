"""A PostgreSQL server of the tests' own, from Debian's package: installed, or installed now where that is possible."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.debian import install

_number = count(1)


@dataclass(frozen=True)
class Server:
    """A running server, reached through a socket in its folder."""

    folder: Path
    user: str
    programs: Path

    def new_catalog(self) -> str:
        """An empty database, as `connect(catalog=...)` takes it."""
        name = f"lake{next(_number)}"
        self.run("psql", "-h", str(self.folder), "-d", "postgres", "-c", f"CREATE DATABASE {name}")
        return f"postgres:host={self.folder} user={self.user} dbname={name}"

    def run(self, program: str, *arguments: str) -> None:
        """One of PostgreSQL's programs, as a user that it accepts: it refuses to run as root."""
        as_user = ["runuser", "-u", self.user, "--"] if os.geteuid() == 0 else []
        command = [*as_user, str(self.programs / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")


def find_programs() -> Path | None:
    """Where initdb and its kin are; installs them where we may."""
    found = _installed()
    if found is None:
        install("postgresql")
        found = _installed()
    return found


def _installed() -> Path | None:
    return next((path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)


@contextmanager
def running_server(programs: Path) -> Iterator[Server]:
    """Start a server in a folder of its own, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-postgres-", dir="/tmp"))
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    server = Server(folder, user, programs)
    data = str(folder / "data")
    server.run("initdb", "-D", data, "-A", "trust", "-U", user, "--no-sync")
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    server.run("pg_ctl", "-D", data, "-l", str(folder / "log"), "-o", options, "-w", "start")
    try:
        yield server
    finally:
        server.run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)
