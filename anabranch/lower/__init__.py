"""Surface relation -> kernel: subqueries, set operations and lateral joins become joins and aggregates."""

from anabranch.lower.lower import lower

__all__ = ["lower"]
