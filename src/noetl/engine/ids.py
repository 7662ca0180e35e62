"""Ids of executions, actions and traces: derived, so that replay makes the same."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b, sha256

import msgspec

EXECUTION_ID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
"""Pattern of an execution id: a UUID."""

_SERVER_ID = slice(15, 18)

Path = tuple[int, ...]
"""The indices of the iterations that lead to a pipeline, the outermost first."""

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
_LENGTH = 26
_SHIFTS = [256 - 5 * place for place in range(2, _LENGTH + 1, 2)]


def server_id_of(execution_id: str) -> str:
    """Return three hexadecimal digits of the server that accepted the execution.

    They are random if no server did. Clients use them to choose the server to try
    first.
    """
    return execution_id[_SERVER_ID]


@lru_cache(maxsize=4_096)  # worker and server compute the same ids
def action_id(execution_id: str, run: str, label: str, path: Path, visit: int) -> str:
    """Return the id of one effect, the same for all retries and all owners.

    It contains the label, not the position, so that reordering other tasks keeps it.
    """
    branch, epoch = "", 0  # reserved for steps that react to events
    parts = [execution_id, run, branch, label, path, visit, epoch]
    digest = int.from_bytes(sha256(msgspec.json.encode(parts)).digest())
    return "a1" + "".join([_PAIRS[digest >> shift & 1023] for shift in _SHIFTS])


def trace_id_of(execution_id: str) -> str:
    """Return the trace id of a root execution: its own id if that is a UUID."""
    plain = execution_id.replace("-", "")
    if len(plain) == 32 and all(digit in "0123456789abcdef" for digit in plain):
        return plain
    return blake2b(execution_id.encode(), digest_size=16).hexdigest()


def span_id_of(entity_id: str, attempt: int | None = None) -> str:
    """Return the span id of a run, an iteration or one attempt of a task."""
    name = entity_id if attempt is None else f"{entity_id}#{attempt}"
    return blake2b(name.encode(), digest_size=8).hexdigest()
