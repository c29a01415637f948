"""A lake as files say it should be: project folders and Spark Declarative Pipelines projects."""

from anabranch.project.folder import apply_folder, plan_folder

__all__ = ["apply_folder", "plan_folder"]
