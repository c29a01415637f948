"""What all syntax nodes are: frozen, compared by identity. Two equal texts at two places are two nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def node(shape: type[T]) -> type[T]:
    return dataclass(frozen=True, eq=False)(shape)


class SyntaxNode:
    """Base of everything the grammar makes."""


@node
class Node(SyntaxNode):
    """A node with its place: `start` and `end` count tokens of the source, end exclusive."""

    start: int
    end: int
