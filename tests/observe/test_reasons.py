"""Every reason that the code gives is in the table that users read."""

from __future__ import annotations

import ast
from pathlib import Path

from anabranch.observe.reasons import REASONS

PACKAGE = Path(__file__).parents[2] / "anabranch"
REASON_AT = {"Choice": 1, "Decision": 2, "NodeReport": 2}
"""Which argument of these values is the reason."""


def given_reasons() -> set[str]:
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REASON_AT:
                at = REASON_AT[node.func.id]
                for literal in ast.walk(node.args[at]) if len(node.args) > at else ():
                    if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                        found.add(literal.value.split(":")[0])
    return {each for each in found if each.isupper()}


def test_every_reason_is_explained() -> None:
    assert "NOT_DIFFERENTIABLE" in given_reasons()
    assert given_reasons() - REASONS.keys() == set()


def test_full_refreshes_come_with_advice() -> None:
    assert [each.code for each in REASONS.values() if each.actions == "FULL" and not each.advice] == []
