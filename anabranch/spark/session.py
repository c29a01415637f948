"""The Spark sessions we run in."""

from __future__ import annotations

from pyspark.sql import SparkSession

LOCAL_SETTINGS = {
    "spark.master": "local[*]",
    "spark.app.name": "anabranch",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def local_session() -> SparkSession:
    """A session in this process, with settings for small and medium inputs on few cores."""
    builder = SparkSession.builder
    for key, value in LOCAL_SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
