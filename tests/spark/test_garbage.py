"""Java objects that are no longer needed do not pile up where Python's collector does not come by."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from py4j.finalizer import ThreadSafeFinalizer

from anabranch.spark import garbage
from anabranch.spark.garbage import let_go_of_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def held() -> int:
    return len(ThreadSafeFinalizer.finalizers)


def test_what_the_collector_left_behind_is_let_go_of(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(garbage, "MOST", 20)
    monkeypatch.setattr(garbage, "_held", garbage._Held(held()))
    before = held()
    gc.disable()
    try:
        for _ in range(20):
            spark.range(1).collect()
        assert held() > before + 20
        let_go_of_java()
        assert held() <= before + 20
    finally:
        gc.enable()


def test_a_few_do_not_call_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_held", garbage._Held(held()))
    monkeypatch.setattr(gc, "collect", lambda: pytest.fail("there is nothing to collect"))
    let_go_of_java()
