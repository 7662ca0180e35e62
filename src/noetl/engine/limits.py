"""Guards against runaway playbooks: what an execution may use at most (S-36)."""

from __future__ import annotations

import msgspec

from noetl.dsl.durations import parse_duration
from noetl.dsl.model import Playbook


class Limits(msgspec.Struct, frozen=True):
    """``step_runs`` per execution, ``task_runs`` per pipeline."""

    step_runs: int = 100_000
    task_runs: int = 1_000_000


CEILING = Limits()
_LONGEST = 100 * 366 * 86_400.0  # seconds; what is later is as good as never


def limits_of(playbook: Playbook) -> Limits:
    """The playbook's own limits; the validator lets it lower them, never raise."""
    own = (playbook.executor.get("spec") or {}).get("limits")
    return Limits(**own) if own else CEILING


def deadline_of(playbook: Playbook, timeout: float | None) -> float | None:
    """How long the execution may take, in seconds: the shorter of the two (S-36)."""
    own = (playbook.executor.get("spec") or {}).get("deadline")
    limits = [parse_duration(own)] if own is not None else []
    limits += [timeout] if timeout is not None else []
    return min([*limits, _LONGEST]) if limits else None
