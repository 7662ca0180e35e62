"""Executions that start others by ending: what fits, and where it would go round."""

from __future__ import annotations

import re
from collections.abc import Iterable

from noetl.triggers.definition import Definition

LONGEST = 8
"""Executions that may start each other one after the other."""

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
PATTERN = re.compile(rf"{_NAME}(/{_NAME})*(/\*)?\Z")


def covers(pattern: str, path: str) -> bool:
    """``sales/*`` is all below ``sales``."""
    if pattern.endswith("/*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def hears(definition: Definition, path: str | None, status: str) -> bool:
    """Whether the end of such an execution starts one."""
    finished = definition.finished
    if finished is None or path is None:
        return False
    return status in finished.status and covers(finished.path, path)


def find_loop(new: Definition, others: Iterable[Definition]) -> list[str] | None:
    """The playbooks by which the new one would start itself again, if it would.

    Whatever its status: which way an execution ends is not known before.
    """
    triggers = [each for each in others if each.finished and each.name != new.name]
    triggers.append(new)
    way: dict[str, str | None] = {new.path: None}
    open_ = [new.path]
    while open_:
        path = open_.pop()
        for each in triggers:
            if each.finished is None or not covers(each.finished.path, path):
                continue
            if each is new:
                return [*_way_to(path, way), new.path]
            if each.path not in way:
                way[each.path] = path
                open_.append(each.path)
    return None


def _way_to(path: str, way: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    step: str | None = path
    while step is not None:
        found.insert(0, step)
        step = way[step]
    return found
