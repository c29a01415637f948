"""`anabranch diamonds`: where paths from a source part and meet again."""

from __future__ import annotations

from dataclasses import asdict

from anabranch.cli.lakes import CatalogOption, JsonOption, LakeOption, open_lake
from anabranch.cli.terminal import out, print_json


def diamonds(lake: LakeOption = None, catalog: CatalogOption = None, as_json: JsonOption = False) -> None:
    """Show the diamond groups: convergence, members, shared sources, policy, last move.

    Example: anabranch diamonds --lake shop
    """
    with open_lake(lake, catalog, as_json) as opened:
        groups = opened.diamond_groups()
    if as_json:
        print_json([asdict(each) for each in groups])
    else:
        out.print(repr(groups), markup=False)
