"""A browser for the tests: Debian's chromium, and axe-core, which finds faults of accessibility.

Both are used where they are, and fetched where that is possible; else the tests that need them are skipped and say so.
axe-core (Mozilla Public License 2.0) is fetched from npm into a cache, checked against its known checksum, and is no
part of this repository.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.debian import install

CHROMIUM = Path("/usr/bin/chromium")
AXE = "axe-core@4.14.0"
AXE_CHECKSUM = "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="


def find_chromium() -> Path | None:
    """Where chromium is; installs Debian's where we may."""
    if not CHROMIUM.exists():
        install("chromium")
    return CHROMIUM if CHROMIUM.exists() else None


def axe_source() -> str | None:
    """axe-core's script, fetched once; None where it cannot be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "anabranch-tests" / AXE
    script = cache / "axe.min.js"
    if not script.exists() and not _fetch_axe(script):
        return None
    return script.read_text("utf-8")


def _fetch_axe(script: Path) -> bool:
    npm = shutil.which("npm")
    if npm is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([npm, "pack", AXE], check=False, capture_output=True, cwd=folder, timeout=120)
        packages = list(Path(folder).glob("*.tgz"))
        if done.returncode != 0 or not packages:
            return False
        found = base64.b64encode(hashlib.sha512(packages[0].read_bytes()).digest()).decode()
        assert found == AXE_CHECKSUM, f"{AXE} from npm is not what it was: {found}"
        with tarfile.open(packages[0]) as package:
            member = package.extractfile("package/axe.min.js")
            assert member is not None
            content = member.read()
    script.parent.mkdir(parents=True, exist_ok=True)
    partial = script.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(script)
    return True
