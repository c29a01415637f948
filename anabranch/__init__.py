"""SQL-defined tables kept fresh on Apache Spark."""

from anabranch.errors import AnabranchError
from anabranch.lake import Lake, connect

__all__ = ["AnabranchError", "Lake", "connect"]
