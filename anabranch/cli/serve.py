"""`anabranch serve`: the scheduler and the web page of a lake."""

from __future__ import annotations

import json
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.observe.web.server import Serving


def serve(
    lake: Annotated[str, typer.Argument(help="The lake's folder.")],
    host: Annotated[str, typer.Option(help="Where to listen; others than loopback need a token to act.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.")] = 8765,
    catalog: Annotated[str | None, typer.Option(help="postgres:... where the catalog is in PostgreSQL.")] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="ANABRANCH_TOKEN", help="What acting needs; made up if not given."),
    ] = None,
    allowed_host: Annotated[list[str] | None, typer.Option(help="A further name the server answers to.")] = None,
    protect_reading: Annotated[bool, typer.Option("--protect-reading", help="Let reading need the token too.")] = False,
    no_scheduler: Annotated[bool, typer.Option("--no-scheduler", help="The page alone.")] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Refresh what is due, and show it on a web page, until Ctrl-C.

    Example: anabranch serve shop --open
    """
    from anabranch.lake import connect
    from anabranch.observe.web.server import Options

    console = Console()
    options = Options(host, port, token, tuple(allowed_host or ()), protect_reading, not no_scheduler)

    def ready(serving: Serving) -> None:
        if as_json:
            typer.echo(json.dumps({"url": serving.url, "token": serving.token}))
        else:
            console.print(f"[bold]{serving.url}[/bold]  shows {lake}; Ctrl-C stops it", highlight=False)
            if serving.token is not None and token is None:
                console.print(f"token to act: {serving.token}", highlight=False, markup=False)
        if open_browser:
            webbrowser.open(serving.url)

    try:
        with console.status("starting Spark") if not as_json else Console(stderr=True).status("starting Spark"):
            opened = connect(lake, catalog=catalog, create=False)
        with opened:
            opened.serve(options, ready)
    except AnabranchError as error:
        Console(stderr=True).print(str(error), style="red", highlight=False, markup=False)
        raise typer.Exit(2) from None
