"""Random histories of a table: which steps, how often, and when everything is checked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .machine import LakeMachine, TheirFaultError

STEPS = (
    ("insert_ours", 4),
    ("insert_file", 3),
    ("insert_theirs", 5),
    ("delete_ours", 4),
    ("delete_theirs", 4),
    ("update_theirs", 4),
    ("several_theirs", 2),
    ("add_column", 1),
    ("drop_column", 1),
    ("rename_column", 1),
    ("merge", 2),
    ("rewrite", 2),
    ("flush", 2),
    ("compact", 1),
    ("toggle_inlining", 2),
    ("expire", 1),
    ("clean", 1),
)


MAINTENANCE = ("merge", "rewrite", "flush", "compact", "expire", "clean")


def follow(machine: LakeMachine, names: Iterable[str]) -> None:
    """These steps. After each the newest snapshot, some older ones, and changes; all after those that rewrite files."""
    try:
        for name in names:
            machine.step(name)
            machine.check(pairs=2, snapshots=None if name in MAINTENANCE else 3)
        machine.check(pairs=20)
    except TheirFaultError:
        machine.log.append("DuckLake cannot read the table any more")
    except BaseException as error:
        error.add_note(f"steps {machine.log}")
        raise
    finally:
        machine.close()


def run(folder: Path, seed: int, steps: int, pairs: int, catalog: str | None = None) -> LakeMachine:
    """Random steps with a fixed seed; after each, every kept snapshot and so many changes between two of them."""
    machine = LakeMachine(folder, seed, catalog)
    names, weights = zip(*STEPS, strict=True)
    for _ in range(steps):
        (name,) = machine.random.choices(names, weights)
        try:
            machine.step(name)
            machine.check(pairs)
        except TheirFaultError:
            machine.log.append("DuckLake cannot read the table any more")
            break
        except BaseException as error:
            error.add_note(f"seed {seed}, steps {machine.log}")
            raise
    return machine
