"""`anabranch explain`: why and how a stream table is refreshed."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption, open_lake
from anabranch.cli.terminal import busy, out, print_json
from anabranch.errors import SettingError


def explain(
    name: Annotated[str | None, typer.Argument(help="A stream table.")] = None,
    query: Annotated[str | None, typer.Option("--query", "-q", help="A query, before it is made a table.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only what is stored; starts no Spark.")] = False,
    lake: LakeOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain a stream table: query, mode and its reason, plans, what the next tick would do and why.

    Example: anabranch explain revenue_by_region
    """
    if (name is None) == (query is None):
        raise SettingError(
            "NOTHING_TO_EXPLAIN",
            "explain takes the name of a stream table, or --query",
            hint="anabranch status lists the stream tables",
        )
    with open_lake(lake, catalog, as_json) as opened:
        if quick and name is not None:
            explanation = opened.explain(name, quick=True)
        else:
            with busy("asking Spark", as_json):
                explanation = opened.explain(name, query=query)
    if as_json:
        print_json({"name": explanation.name, "sections": dict(explanation.sections)})
        return
    for title, text in explanation.sections:
        out.print(f"[bold]{escape(title)}[/bold]")
        for line in text.splitlines():
            out.print(f"  {line}", markup=False, soft_wrap=True)
