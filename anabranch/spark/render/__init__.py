"""Relation -> Spark SQL text."""

from anabranch.spark.render.render import render
from anabranch.spark.render.scope import Bound, Names, Rendered

__all__ = ["Bound", "Names", "Rendered", "render"]
