"""Names of runs, iterations, tasks and actions: derived, so that replay agrees."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

import msgspec

EXECUTION_ID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
"""What the name of an execution looks like: a UUID."""

_MARK = slice(15, 18)

Path = tuple[int, ...]
"""The indices of the iterations that lead to a pipeline, the outermost first."""

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
_LENGTH = 26
_SHIFTS = [256 - 5 * place for place in range(2, _LENGTH + 1, 2)]


def mark_of(execution_id: str) -> str:
    """Three digits of the name: those of the server that accepted the execution, if it
    was one. A hint where to ask first, and nothing else."""
    return execution_id[_MARK]


def step_run_id(execution_id: str, number: int) -> str:
    """The ``number``-th admitted firing of an execution, from 1."""
    return f"{execution_id}-{number}"


def token_id(execution_id: str, number: int) -> str:
    return f"{execution_id}.t{number}"


def iteration_id(run: str, path: Path) -> str:
    """``<step_run_id>/<i>[/<j>…]``, which is the command's id, too."""
    if not path:
        return run
    if len(path) == 1:
        return f"{run}/{path[0]}"
    return "/".join([run, *map(str, path)])


def task_run_id(command_id: str, label: str, visit: int) -> str:
    """One entry into a task; retries of it share the id."""
    return f"{command_id}:{label}.{visit}"


@lru_cache(maxsize=4_096)  # worker and server ask for the same ones, one after another
def action_id(execution_id: str, run: str, label: str, path: Path, visit: int) -> str:
    """What makes an effect one effect, over all retries and all owners.

    The label, not the position: the id survives a reordering of other tasks.
    """
    branch, epoch = "", 0  # of steps that react to events
    parts = [execution_id, run, branch, label, path, visit, epoch]
    digest = int.from_bytes(sha256(msgspec.json.encode(parts)).digest())
    return "a1" + "".join([_PAIRS[digest >> shift & 1023] for shift in _SHIFTS])
