"""Debian's packages for the tests that need one."""

from __future__ import annotations

import os
import shutil
import subprocess


def install(package: str) -> None:
    """Install the package where we may; two runs side by side wait for each other."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    options = ["-o", "DPkg::Lock::Timeout=300", "-y", "-qq", "--no-install-recommends"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", *options, "install", package]
    subprocess.run(command, check=False, capture_output=True, env=environment, timeout=600)
