"""A scheduler in a process of its own, in the Spark that the test has started: `python -m ... <folder>`.

Starting Spark takes longer than everything that is tested here. The process has its own Python, lake and commits; only
the JVM is shared, by the gateway that the environment names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anabranch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def start_scheduler(spark: SparkSession, folder: str) -> subprocess.Popen[str]:
    """The process, when it is about to run."""
    gateway = spark.sparkContext._gateway.gateway_parameters
    environment = {
        **os.environ,
        "PYSPARK_GATEWAY_PORT": str(gateway.port),
        "PYSPARK_GATEWAY_SECRET": gateway.auth_token,
    }
    command = [sys.executable, "-m", "tests.scheduler.scheduler_process", folder]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def shared_session() -> SparkSession:
    """A session in the Spark that runs in the gateway's JVM already."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    return SparkSession(SparkContext(gateway=gateway, jsc=gateway.jvm.JavaSparkContext(running)))


if __name__ == "__main__":
    lake = anabranch.connect(sys.argv[1], spark=shared_session())
    print("running", flush=True)
    lake.run()
    lake.close()
    print("ended", flush=True)
