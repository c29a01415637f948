"""What a tick did, for people."""

from __future__ import annotations

from anabranch.cli.terminal import out, print_rows, state_colour
from anabranch.observe.report import Report

SHOWN = ("name", "action", "reason", "rows_inserted", "rows_deleted", "seconds", "fused")


def print_report(report: Report) -> None:
    """The head line, one row a stream table, then notices and hints."""
    jobs = "" if report.spark_jobs is None else f", {report.spark_jobs} Spark jobs"
    out.print(f"snapshot {report.snapshot}, {report.seconds:.2f} s{jobs}")
    rows = [each.to_dict() for each in report.nodes.values()]
    if rows:
        print_rows(rows, SHOWN, colours={"action": state_colour})
    for notice in report.notices:
        out.print(notice, markup=False, style="yellow")
    for each in report.nodes.values():
        if each.error:
            out.print(f"  {each.name}: {each.error['message']} {each.error.get('hint', '')}".rstrip(), markup=False)
