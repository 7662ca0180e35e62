"""What a task waits for, and how it ends: the worker's half of suspension (S-68)."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from string import hexdigits

import msgspec

from noetl.dsl.durations import parse_duration
from noetl.dsl.schemas import find_flaws
from noetl.dsl.zones import UTC, find_zone, parse_time
from noetl.engine.outcome import Outcome
from noetl.engine.progress import Waiting
from noetl.engine.times import rfc3339, seconds_of
from noetl.types import JSON

SUSPENDING = frozenset({"wait", "playbook", "choose"})
"""Kinds that no tool runs: the pipeline waits for the server."""

MAX_DEPTH = 16
LARGEST_SCHEMA = 16 * 1024
"""Bytes: it is in each event that waits for the signal."""
_encode = msgspec.json.Encoder().encode
_YEARS = 100 * 366 * 86_400.0


def child_id(parent_id: str, action_id: str, attempt: int) -> str:
    """One child per attempt of an action, whoever starts it and however often.

    A UUID of version 8: the time of the parent's id, so that a listing shows them
    together, and a hash of what calls.
    """
    digest = sha256(f"{action_id}.{attempt}".encode()).hexdigest()
    moment = parent_id.replace("-", "")[:12]
    if len(moment) < 12 or not set(moment) <= set(hexdigits):
        moment = digest[20:32]
    variant = "89ab"[int(digest[3], 16) % 4]
    parts = (moment[:8], moment[8:12], f"8{digest[:3]}", variant + digest[4:7])
    return "-".join((*parts, digest[7:19]))


def wait_of(inputs: Mapping[str, JSON]) -> dict[str, JSON] | Outcome:
    """What a ``wait`` task asks for; an outcome where it cannot be granted."""
    try:
        if inputs.get("for") is not None:
            return {"on": "timer", "seconds": _seconds(inputs["for"])}
        if inputs.get("until") is not None:
            return {"on": "timer", "until": rfc3339(seconds_of(str(inputs["until"])))}
        if inputs.get("at") is not None:
            return {"on": "timer", **_time_of_day(inputs)}
        name, timeout = inputs.get("signal"), inputs.get("timeout")
        if not isinstance(name, str) or not name:
            raise ValueError("'signal' must be a name")
        limit = None if timeout is None else _seconds(timeout)
        return {"on": "signal", "signal": name, "seconds": limit, **_form(inputs)}
    except (ValueError, OverflowError) as error:
        return Outcome.failed("tool.contract", f"wait: {error}")


def _time_of_day(inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    """Checked here; the server says which day's it is, by its clock (I-28)."""
    at, zone = str(inputs["at"]), str(inputs.get("zone") or UTC)
    parse_time(at)
    find_zone(zone)
    return {"at": at, "zone": zone}


def _form(inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    """What the signal must bring, and who may send it."""
    form: dict[str, JSON] = {}
    schema, roles = inputs.get("schema"), inputs.get("roles")
    if schema is not None:
        flaws = find_flaws(schema)
        if flaws:
            raise ValueError("'schema' is no schema: " + "; ".join(flaws))
        if len(_encode(schema)) > LARGEST_SCHEMA:
            raise ValueError(f"'schema' takes more than {LARGEST_SCHEMA:,} bytes")
        form["schema"] = schema
    if roles is not None:
        if not isinstance(roles, list) or not all(isinstance(r, str) for r in roles):
            raise ValueError("'roles' must be a list of roles")
        form["roles"] = roles
    return form


def child_of(
    inputs: Mapping[str, JSON],
    spec: Mapping[str, JSON],
    parent_id: str,
    action_id: str,
    attempt: int,
    iteration: dict[str, JSON] | None,
) -> dict[str, JSON] | Outcome:
    """Which child a ``playbook`` task asks for, and how long it may take."""
    path, args = inputs.get("path"), inputs.get("args") or {}
    if not isinstance(path, str) or not isinstance(args, dict):
        message = "playbook: 'path' must be text, and 'args' a mapping"
        return Outcome.failed("tool.contract", message)
    limit = spec.get("timeout")
    try:
        seconds = None if limit is None or isinstance(limit, dict) else _seconds(limit)
    except (ValueError, OverflowError) as error:
        return Outcome.failed("tool.contract", f"playbook: spec.timeout: {error}")
    child: dict[str, JSON] = {
        "execution_id": child_id(parent_id, action_id, attempt),
        "path": path,
        "version": inputs.get("version"),
        "args": args,
        "iter": iteration,
    }
    return {"on": "playbook", "child": child, "seconds": seconds}


def _seconds(value: JSON) -> float:
    return min(parse_duration(value), _YEARS)


def answer_of(waiting: Waiting) -> Outcome:
    """How the task ends, given what came, or that nothing came in time."""
    answer = waiting.answer
    if waiting.on == "timer":
        return Outcome.ok()
    if waiting.on == "signal":
        if answer is not None:
            return Outcome.ok(answer["data"])
        message = f"no signal '{waiting.signal}' came until {waiting.until}"
        return Outcome.failed("timeout", message, retryable=True)
    child = waiting.child or {}
    about: dict[str, JSON] = {
        "execution_id": child.get("execution_id"),
        "status": (answer or {}).get("status"),
    }
    if answer is None:
        message = f"playbook '{child.get('path')}' took longer than its timeout"
        return Outcome.failed("timeout", message, retryable=True, **about)
    if answer["status"] == "completed":
        return Outcome.ok(answer["result"], **about)
    error = answer["error"] or {}
    if answer["status"] is None:  # it never began
        return Outcome.failed(error["kind"], error["message"], **about)
    why = error.get("message", f"it ended as {answer['status']}")
    message = f"playbook '{child.get('path')}' {answer['status']}: {why}"
    kind = "playbook.failed"
    if answer["status"] == "cancelled":
        kind = "playbook.cancelled"
    return Outcome.failed(kind, message, details={"error": error}, **about)
