"""Guards against runaway playbooks: what an execution may use at most (S-36)."""

from __future__ import annotations

import msgspec

from noetl.dsl.model import Playbook


class Limits(msgspec.Struct, frozen=True):
    """``step_runs`` per execution, ``task_runs`` per pipeline."""

    step_runs: int = 100_000
    task_runs: int = 1_000_000


CEILING = Limits()


def limits_of(playbook: Playbook) -> Limits:
    """The playbook's own limits; the validator lets it lower them, never raise."""
    own = (playbook.executor.get("spec") or {}).get("limits") or {}
    return Limits(**own)
