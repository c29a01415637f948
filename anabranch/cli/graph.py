"""`anabranch graph`: which table is computed from which."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.tree import Tree

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption, open_lake
from anabranch.cli.terminal import out, print_json
from anabranch.observe.drawing import GraphPicture, dot, mermaid, picture_of

if TYPE_CHECKING:
    pass


class Form(StrEnum):
    """How a graph is written."""

    TREE = "tree"
    MERMAID = "mermaid"
    DOT = "dot"


def graph(
    name: Annotated[str | None, typer.Argument(help="A table: what it is computed from.")] = None,
    form: Annotated[Form, typer.Option("--format", "-f", help="tree, mermaid (for Markdown) or dot.")] = Form.TREE,
    lake: LakeOption = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the graph of tables, from the sources down; with a name, what that table is computed from.

    Example: anabranch graph --format mermaid
    """
    with open_lake(lake, catalog, as_json) as opened:
        picture = picture_of(opened._engine, name)
        if not as_json and name is not None and form is Form.TREE:
            out.print(repr(opened.dependency_tree(name)), markup=False)
            return
    if as_json:
        print_json(picture.to_dict())
    elif form is Form.TREE:
        _print_tree(picture)
    else:
        print(mermaid(picture) if form is Form.MERMAID else dot(picture))


def _print_tree(picture: GraphPicture) -> None:
    """Every source with what is computed from it; a table that was shown above is only named."""
    shown: set[str] = set()
    for root in picture.roots:
        tree = Tree(_label(picture, root))
        _grow(picture, tree, root, shown)
        out.print(tree)


def _grow(picture: GraphPicture, tree: Tree, table: str, shown: set[str]) -> None:
    for reader in picture.readers(table):
        if reader in shown:
            tree.add(f"{escape(reader)} [dim](see above)[/dim]")
            continue
        shown.add(reader)
        _grow(picture, tree.add(_label(picture, reader)), reader, shown)


def _label(picture: GraphPicture, table: str) -> str:
    if table in picture.sources:
        return f"[bold]{escape(table)}[/bold] [dim]source[/dim]"
    mark = " [magenta]<> diamond[/magenta]" if table in picture.convergences else ""
    return f"{escape(table)}{mark}"
