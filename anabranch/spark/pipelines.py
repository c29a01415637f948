"""Runs the Python files of a Spark Declarative Pipelines project and notes what they define, without running Spark.

The files see a `spark` that only writes down what is asked of it: `spark.sql(text)`, `spark.table(name)`,
`spark.range(n)`, and of DataFrames what is plain SQL. Anything else is refused by its name, with file and line.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.errors import PySparkException
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, TemporaryView
from pyspark.sql import SparkSession

from anabranch.errors import AnabranchError, QueryError
from anabranch.spark.recorded import RecordedFrame, RecordingSession

LEFT_ASIDE = ("comment", "table_properties", "partition_cols", "cluster_by", "format")
"""What a decorator may say and a lake decides itself: told, and left aside."""


@dataclass(frozen=True)
class PipelineDefinition:
    """A materialized view or a temporary view that a Python file defines."""

    name: str
    query: str
    file: str
    line: int
    is_view: bool
    left_aside: tuple[str, ...] = ()


class _Registry(GraphElementRegistry):
    """Collects what the decorators register."""

    def __init__(self) -> None:
        self.outputs: dict[str, Output] = {}
        self.flows: list[Flow] = []

    def register_output(self, output: Output) -> None:
        if not isinstance(output, MaterializedView | TemporaryView):
            raise _refused(type(output).__name__, output.name, output.source_code_location)
        if getattr(output, "schema", None) is not None:
            raise _refused("schema=", output.name, output.source_code_location)
        self.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        if flow.name != flow.target:
            raise _refused("append_flow", flow.name, flow.source_code_location)
        if flow.spark_conf:
            raise _refused("spark_conf=", flow.name, flow.source_code_location)
        self.flows.append(flow)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise _refused("create_auto_cdc_flow", flow.target, flow.source_code_location)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise AssertionError("SQL files are read elsewhere")


def definitions_of(file: Path) -> list[PipelineDefinition]:
    """What a Python file defines, its functions called once."""
    registry = _Registry()
    session = RecordingSession(str(file))
    with _active(session), graph_element_registration_context(registry):
        _told(file, lambda: _run(file, session))
        return [_definition(file, registry.outputs[flow.target], flow) for flow in registry.flows]


def _definition(file: Path, output: Output, flow: Flow) -> PipelineDefinition:
    made = _told(file, flow.func)
    code: Any = getattr(flow.func, "__code__", None)
    line = code.co_firstlineno if code is not None else 1
    if not isinstance(made, RecordedFrame):
        raise _placed(
            QueryError(
                "PIPELINE_NOT_UNDERSTOOD",
                f"the function of {output.name!r} returns {type(made).__name__}, not a query",
                hint="return spark.sql(...) or spark.table(...)",
            ),
            file,
            line,
        )
    aside = tuple(name for name in LEFT_ASIDE if getattr(output, name, None))
    return PipelineDefinition(output.name, made.query, str(file), line, isinstance(output, TemporaryView), aside)


def _run(file: Path, session: RecordingSession) -> None:
    spec = importlib.util.spec_from_file_location(f"pipeline_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = session
    with patch.object(sys, "dont_write_bytecode", True):
        spec.loader.exec_module(module)


def _told(file: Path, work: Callable[[], Any]) -> Any:
    """Do the user's work; whatever it raises is told with the line of their file."""
    try:
        return work()
    except AnabranchError as error:
        raise _placed(error, file, _line_in(file, error)) from None
    except PySparkException as error:
        code = error.getCondition() or "PIPELINE_FAILED"
        raise _placed(QueryError(code, str(error).split("\n")[0]), file, _line_in(file, error)) from None
    except Exception as error:
        failed = QueryError("PIPELINE_FAILED", f"{type(error).__name__}: {error}", hint="mend the file")
        raise _placed(failed, file, _line_in(file, error)) from error


def _line_in(file: Path, error: Exception) -> int:
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == str(file)]
    return lines[-1] or 1 if lines else 1


def _placed(error: AnabranchError, file: Path, line: int) -> AnabranchError:
    error.place = error.place or f"{file}:{line}"
    return error


def _refused(what: str, name: str, location: Any) -> QueryError:
    error = QueryError(
        "PIPELINE_NOT_SUPPORTED",
        f"{name!r} uses {what}, which cannot be taken over",
        "materialized views and temporary views are, whose functions return spark.sql(...) or spark.table(...)",
        "keep it in Spark Declarative Pipelines, or write it as a query over tables of the lake",
    )
    error.place = f"{location.filename}:{location.line_number}"
    return error


@contextmanager
def _active(session: RecordingSession) -> Iterator[None]:
    """SparkSession.active() and its kin give the recording session as well."""

    def recording(*_: Any, **__: Any) -> RecordingSession:
        return session

    replaced: Mapping[str, Any] = {"active": recording, "getActiveSession": recording}
    with patch.multiple(SparkSession, **replaced), patch.object(SparkSession.Builder, "getOrCreate", recording):
        yield
