"""The machine that a figure comes from, in one line."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def machine() -> str:
    """Cores, processor, memory and versions.

    >>> machine()  # doctest: +SKIP
    '2 cores (AMD EPYC 7B13), 23 GB, Linux 6.1.0 x86_64, Python 3.11.7, Spark 4.2.1, DuckDB 1.5.5'
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    versions = f"Python {platform.python_version()}, Spark {version('pyspark')}, DuckDB {version('duckdb')}"
    return f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GB, {system}, {versions}"


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
