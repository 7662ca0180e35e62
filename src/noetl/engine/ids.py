"""Names of runs, iterations, tasks and actions: derived, so that replay agrees."""

from __future__ import annotations

import hashlib
import json
from base64 import b32encode
from collections.abc import Sequence


def step_run_id(execution_id: str, number: int) -> str:
    """The ``number``-th admitted firing of an execution, from 1."""
    return f"{execution_id}-{number}"


def token_id(execution_id: str, number: int) -> str:
    return f"{execution_id}.t{number}"


def iteration_id(run: str, path: Sequence[int]) -> str:
    """``<step_run_id>/<i>[/<j>…]``, which is the command's id, too."""
    return "/".join([run, *map(str, path)])


def task_run_id(command_id: str, label: str, visit: int) -> str:
    """One entry into a task; retries of it share the id."""
    return f"{command_id}:{label}.{visit}"


def action_id(
    execution_id: str,
    run: str,
    label: str,
    path: Sequence[int],
    visit: int,
    *,
    branch: str = "",
    epoch: int = 0,
) -> str:
    """What makes an effect one effect, over all retries and all owners.

    The label, not the position: the id survives a reordering of other tasks.
    """
    parts = [execution_id, run, branch, label, list(path), visit, epoch]
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return "a1" + b32encode(digest).decode()[:26].lower()
