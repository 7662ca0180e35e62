"""Limits of executions: against runaway playbooks (S-36), and of the operator."""

from __future__ import annotations

import msgspec

from noetl.dsl.model import Playbook, Step
from noetl.dsl.times import parse_duration
from noetl.engine.tasks.outcome import Failure
from noetl.types import JSON

_MAX_SECONDS = 100 * 366 * 86_400.0  # seconds: a century


def deadline_of(playbook: Playbook, timeout: float | None) -> float | None:
    """Return the maximum duration in seconds: the shorter of the two timeouts
    (S-36)."""
    own = (playbook.executor.get("spec") or {}).get("deadline")
    limits = [parse_duration(own)] if own is not None else []
    limits += [timeout] if timeout is not None else []
    return min([*limits, _MAX_SECONDS]) if limits else None


# -- limits of the operator ------------------------------------------------------

CODE_KINDS = frozenset({"python", "script", "shell"})
"""Kinds whose inputs are code."""

EVERY_POOL = "*"
TOOL_TIME = 86_400.0
"""Maximum seconds of one tool call, whatever its ``spec.timeout``."""
EXECUTION_EVENTS = 10_000_000


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that the operator sets, and that a playbook cannot raise.

    ``code_pools`` are the worker pools that run ``CODE_KINDS``, with ``*`` for all
    pools. ``tool_time`` is in seconds, ``execution_events`` is the maximum length of a
    log.
    """

    code_pools: frozenset[str] = frozenset({EVERY_POOL})
    tool_time: float = TOOL_TIME
    execution_events: int = EXECUTION_EVENTS

    def runs_code(self, pool: str) -> bool:
        return pool in self.code_pools or EVERY_POOL in self.code_pools

    def code_refusal(self, step: Step, pool: str) -> dict[str, JSON] | None:
        """Return the error of a step that may not run in this pool, or None."""
        if self.runs_code(pool):
            return None
        task = next((each for each in step.tasks if each.kind in CODE_KINDS), None)
        if task is None:
            return None
        error = Failure("pool.code_off", code_off_message(task.kind, pool))
        return {**msgspec.to_builtins(error), "task": task.label}


def code_off_message(kind: str, pool: str) -> str:
    return (
        f"the worker pool '{pool}' does not run code, and the task is of kind "
        f"'{kind}': name a pool that does in spec.pool, or ask an admin to add this "
        "one to the setting pools.code"
    )
