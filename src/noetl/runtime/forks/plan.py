"""Plan of a fork: checked as far as possible before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.model import Playbook
from noetl.engine.forks import Fork, find_obstacles
from noetl.engine.values.references import admit_later
from noetl.errors import ConfigError
from noetl.net.net import build_net
from noetl.ports import Blobs, Summary
from noetl.runtime.forks.create import edited_workload
from noetl.runtime.forks.points import (
    Log,
    Point,
    Start,
    find_admissions,
    find_failures,
    find_point,
    unwind,
)
from noetl.runtime.values.ownership import Owners
from noetl.types import JSON


class Origin(msgspec.Struct, frozen=True):
    """The execution to fork, which is only read. ``playbook`` is None if its text is
    gone.
    """

    execution_id: str
    log: Log
    blobs: Blobs
    summary: Summary
    about: dict[str, JSON]
    playbook: Playbook | None


class Successor(msgspec.Struct, frozen=True):
    """A newer playbook, its record for the log, and its name for users."""

    playbook: Playbook
    about: dict[str, JSON]
    name: str


class Edits(msgspec.Struct, frozen=True):
    """Changes to the fork; ``timeout`` is in seconds."""

    workload: Mapping[str, JSON]
    set_ctx: dict[str, JSON]
    timeout: float | None = None


class Plan(msgspec.Struct, frozen=True):
    """Everything that a fork needs; nothing has been written."""

    fork: Fork
    point: Point
    playbook: Playbook


async def make_plan(
    origin: Origin,
    start: Start,
    edits: Edits,
    execution_id: str,
    newer: Successor | None = None,
) -> Plan:
    """Plan a fork. Raises ``ConfigError`` if no fork can begin there or with these
    edits, and ``ForgedReference`` for edits that contain references (S-82).
    """
    admit_later(edits.workload, "workload")
    admit_later(edits.set_ctx, "ctx")
    point = await find_point(origin.log, origin.execution_id, start)
    if newer is not None:
        _check_successor(newer, point)
    playbook = newer.playbook if newer is not None else origin.playbook
    if playbook is None:
        message = f"the playbook of {origin.execution_id} cannot be read any more"
        raise ConfigError(f"{message}; bring one with --playbook")
    about = origin.about
    if newer is not None:  # it keeps events of the origin, so it is as sensitive
        about = {**newer.about}
        if origin.about.get("sensitive"):
            about["sensitive"] = True
    workload = await edited_workload(
        Owners(origin.log, origin.blobs),
        point.state,
        edits.workload,
        origin.playbook or playbook,
        newer.playbook if newer is not None else None,
    )
    fork = Fork(
        execution_id,
        origin.execution_id,
        point.seq,
        about,
        newer is not None,
        workload,
        edits.set_ctx,
        point.undone,
        edits.timeout,
    )
    return Plan(fork, point, playbook)


def _check_successor(newer: Successor, point: Point) -> None:
    obstacles = find_obstacles(newer.playbook, point.state)
    if obstacles:
        reasons = "".join(f"\n  {obstacle}" for obstacle in obstacles)
        raise ConfigError(
            f"{newer.name} cannot take over at event {point.seq}:{reasons}\n"
            "keep fewer or more events, or fix the playbook (noetl fork --dry-run)"
        )


async def find_retry(origin: Origin, step: str | None, number: int | None) -> Start:
    """Return the start of a retry: what failed, or a run of a step, and all that
    followed from it run again.

    Raises ``ConfigError``.
    """
    net = build_net(origin.playbook) if origin.playbook is not None else None
    if origin.summary.finished_at is None:
        name = origin.execution_id
        raise ConfigError(
            f"{name} has not finished: {origin.summary.status}. Let it end "
            f"(noetl resume {name}, noetl cancel {name}), or "
            "continue from a copy with noetl fork"
        )
    if step is None:
        if number is not None:
            raise ConfigError("--run needs a step: add --from STEP")
        return await find_failures(origin.log, origin.execution_id, net)
    found, at = await find_admissions(origin.log, origin.execution_id, step)
    if not found:
        raise ConfigError(_never(origin, step))
    if number is not None and number > len(found):
        runs = f"{len(found):,} run{'' if len(found) == 1 else 's'}"
        raise ConfigError(f"step '{step}' has {runs}: there is no run {number}")
    target = found[-1 if number is None else number - 1]
    undone = await unwind(
        origin.log, origin.execution_id, at, [target], net, keep=False
    )
    return Start(at, undone)


def _never(origin: Origin, step: str) -> str:
    known = origin.playbook.steps if origin.playbook is not None else {}
    if known and step not in known:
        hint = did_you_mean(step, known) or "noetl show lists them"
        return f"there is no step '{step}': {hint}"
    return f"step '{step}' was never reached: see noetl show {origin.execution_id}"
