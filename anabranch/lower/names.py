"""Hidden column names for one lowering: `__ab_key_1`, `__ab_found_2`, ... The same query always gets the same names."""

from __future__ import annotations

from anabranch.algebra.relation import RESERVED_PREFIX


class FreshNames:
    """Hands out names that no column of the plan has: users' names never start with our prefix."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, purpose: str) -> str:
        """A new name that says what the column is for."""
        self._taken += 1
        return f"{RESERVED_PREFIX}{purpose}_{self._taken}"
