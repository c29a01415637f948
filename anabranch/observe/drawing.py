"""The graph of a lake as a picture: for terminals, Markdown (mermaid) and Graphviz."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from anabranch.engine import Engine
from anabranch.observe.graph import diamond_groups


@dataclass(frozen=True)
class GraphPicture:
    """Tables by name; an edge leads from the table that is read to the one that reads it."""

    sources: tuple[str, ...]
    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    convergences: tuple[str, ...]

    @property
    def roots(self) -> tuple[str, ...]:
        """Where drawing begins: sources, and stream tables that read nothing."""
        read = {reader for _, reader in self.edges}
        return (*self.sources, *(node for node in self.nodes if node not in read))

    def readers(self, table: str) -> list[str]:
        """What is computed from a table directly."""
        return [reader for read, reader in self.edges if read == table]

    def to_dict(self) -> dict[str, Any]:
        edges = [{"from": read, "to": reader} for read, reader in self.edges]
        return asdict(self) | {"edges": edges}


def picture_of(engine: Engine, name: str | None = None) -> GraphPicture:
    """The whole graph, inputs before readers; or a table with all that it is computed from."""
    pinned = engine.pin()
    graph = pinned.graph
    wanted = {*pinned.sources, *pinned.nodes}
    if name is not None:
        table = pinned.id_of(name)
        wanted = {table, *graph.ancestors(table), *graph.sources_below(table)} if table in pinned.nodes else {table}
    edges = [(table, node) for node in graph.order if node in wanted for table in graph.inputs[node]]
    nodes = tuple(pinned.name_of(node) for node in graph.order if node in wanted)
    return GraphPicture(
        tuple(sorted(pinned.name_of(source) for source in pinned.sources if source in wanted)),
        nodes,
        tuple((pinned.name_of(table), pinned.name_of(node)) for table, node in edges),
        tuple(each.convergence for each in diamond_groups(engine) if each.convergence in nodes),
    )


def mermaid(picture: GraphPicture) -> str:
    """The graph as a mermaid flowchart."""
    numbers = {name: f"t{number}" for number, name in enumerate((*picture.sources, *picture.nodes))}
    lines = ["flowchart LR"]
    lines += [f'  {numbers[name]}[("{_plain(name)}")]' for name in picture.sources]
    for name in picture.nodes:
        left, right = ("{{", "}}") if name in picture.convergences else ("[", "]")
        lines.append(f'  {numbers[name]}{left}"{_plain(name)}"{right}')
    lines += [f"  {numbers[read]} --> {numbers[reader]}" for read, reader in picture.edges if read in numbers]
    return "\n".join(lines)


def dot(picture: GraphPicture) -> str:
    """The graph in Graphviz's language."""
    lines = ["digraph lake {", "  rankdir=LR;"]
    lines += [f"  {_dotted(name)} [shape=cylinder];" for name in picture.sources]
    for name in picture.nodes:
        lines.append(f"  {_dotted(name)} [shape={'diamond' if name in picture.convergences else 'box'}];")
    lines += [f"  {_dotted(read)} -> {_dotted(reader)};" for read, reader in picture.edges]
    return "\n".join([*lines, "}"])


def _plain(name: str) -> str:
    return name.replace('"', "#quot;")


def _dotted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
