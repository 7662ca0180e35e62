"""Kinds whose calls suspend their pipeline: wait, playbook, choose (S-68)."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from string import hexdigits

from noetl.dsl.json_schema import find_flaws
from noetl.dsl.labels import find_label_problems
from noetl.dsl.model import Task
from noetl.dsl.times import UTC, find_zone, parse_duration, parse_time
from noetl.engine.runs import Waiting
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.scope import Scope
from noetl.engine.times import rfc3339, seconds_of
from noetl.types import JSON

SUSPENDING = frozenset({"wait", "playbook", "choose"})
"""Kinds without a tool: the pipeline waits for the server, and needs no slot (S-79)."""

MAX_DEPTH = 16
_MAX_SECONDS = 100 * 366 * 86_400.0


def child_id(parent_id: str, action_id: str, attempt: int) -> str:
    """Return the id of the child: one per attempt of an action, on repeated starts as
    well.

    A UUID of version 8: the time of the parent's id, so that a listing shows them
    together, and a hash of the caller.
    """
    digest = sha256(f"{action_id}.{attempt}".encode()).hexdigest()
    moment = parent_id.replace("-", "")[:12]
    if len(moment) < 12 or not set(moment) <= set(hexdigits):
        moment = digest[20:32]
    variant = "89ab"[int(digest[3], 16) % 4]
    parts = (moment[:8], moment[8:12], f"8{digest[:3]}", variant + digest[4:7])
    return "-".join((*parts, digest[7:19]))


def wait_of(inputs: Mapping[str, JSON]) -> dict[str, JSON] | Outcome:
    """Return the wait of a ``wait`` task; an outcome if its inputs are not valid."""
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
    """Check the time of day; the server chooses the day by its clock (I-28)."""
    at, zone = str(inputs["at"]), str(inputs.get("zone") or UTC)
    parse_time(at)
    find_zone(zone)
    return {"at": at, "zone": zone}


def _form(inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the schema of the signal's data, and the roles that may send it."""
    form: dict[str, JSON] = {}
    schema, roles = inputs.get("schema"), inputs.get("roles")
    if schema is not None:
        flaws = find_flaws(schema)
        if flaws:
            raise ValueError("'schema' is not a JSON Schema: " + "; ".join(flaws))
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
    """Return the child of a ``playbook`` task and its timeout; an outcome if not
    valid."""
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
    labels = inputs.get("labels") or {}
    problem = _label_problem(labels)
    if problem is not None:
        return Outcome.failed("tool.contract", f"playbook: {problem}")
    if labels:
        child["labels"] = labels
    return {"on": "playbook", "child": child, "seconds": seconds}


def _label_problem(labels: JSON) -> str | None:
    if not isinstance(labels, dict):
        return "'labels' must be a mapping of texts"
    return next((problem for _, problem in find_label_problems(labels)), None)


def _seconds(value: JSON) -> float:
    return min(parse_duration(value), _MAX_SECONDS)


def answer_of(waiting: Waiting) -> Outcome:
    """Return the outcome of a wait that was answered or has timed out."""
    answer = waiting.answer
    if waiting.on == "timer":
        return Outcome.ok()
    if waiting.on == "signal":
        if answer is not None:
            return Outcome.ok(answer["data"])
        message = f"no signal '{waiting.signal}' arrived by {waiting.until}"
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
    where = f" in step '{error['step']}'" if error.get("step") else ""
    if error.get("iteration") is not None:
        where += f", iteration {error['iteration']}"
    message = f"playbook '{child.get('path')}' {answer['status']}{where}: {why}"
    kind = "playbook.failed"
    if answer["status"] == "cancelled":
        kind = "playbook.cancelled"
    details = {"error": error, "execution_id": child.get("execution_id")}
    return Outcome.failed(kind, message, details=details, **about)


# -- the kind ``choose``: worker and server evaluate the same guards --------------


TIMEOUT = "timeout"
"""The timer that fails the task, unless a guard accepts it."""


def pick(task: Task, scope: Scope, event: JSON) -> list[str]:
    """Return the names of the guards that accept the event. Raises
    ``TemplateError``."""
    scope["event"] = event
    names: list[str] = []
    for name, guard in task.guards.items():
        if guard.holds(scope):
            names.append(name)
            if task.literals.get("mode", "exclusive") == "exclusive":
                break
    otherwise = task.literals.get("otherwise")
    return names if names or otherwise is None else [otherwise]


def choose(task: Task, inputs: Mapping[str, JSON], scope: Scope) -> Outcome | None:
    """Return the choice on the first event; None if the task must wait for another."""
    event, waits = inputs.get("event"), task.literals.get("wait", False)
    if event is None and waits:
        return None
    names = pick(task, scope, event)
    return None if waits and not names else _chosen(task, inputs, names, event, [])


def listen(
    inputs: Mapping[str, JSON], waiting: Waiting | None, before: JSON
) -> dict[str, JSON] | Outcome:
    """Return the wait of a task: any event, and its timers, armed with the first
    wait."""
    if waiting is not None:
        return {"on": "event", "timers": waiting.timers[1:]}
    if before is not None and before["choose"]["timers"]:
        return {"on": "event", "timers": before["choose"]["timers"]}
    try:
        timers = [
            {"id": name, "seconds": min(parse_duration(value), _MAX_SECONDS)}
            for name, value in (inputs.get("timers") or {}).items()
        ]
    except (ValueError, AttributeError) as error:
        return Outcome.failed("tool.contract", f"choose: timers: {error}")
    return {"on": "event", "timers": timers}


def choose_event(
    task: Task, inputs: Mapping[str, JSON], scope: Scope, waiting: Waiting
) -> Outcome | None:
    """Return the choice on the received event; None for a timer that no guard
    accepts."""
    answer, timers = waiting.answer, waiting.timers
    if answer is not None:
        if "error" in answer:
            return Outcome.failed(answer["error"]["kind"], answer["error"]["message"])
        return _chosen(task, inputs, answer["matched"], answer["event"], timers)
    timer = timers[0]
    event = fired(timer)
    names = pick(task, scope, event)
    if names:
        return _chosen(task, inputs, names, event, timers[1:])
    if timer["id"] == TIMEOUT:
        message = f"no event that a guard accepts arrived by {timer['at']}"
        return Outcome.failed("timeout", message, retryable=True)
    return None


def fired(timer: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a timer as guards see it."""
    data = {"timer_id": timer["id"], "at": timer["at"]}
    return {
        "name": "timer.fired",
        "event_type": "timer.fired",
        "status": "success",
        "timestamp": timer["at"],
        "payload": data,
        "data": data,
    }


def _chosen(
    task: Task,
    inputs: Mapping[str, JSON],
    names: list[str],
    event: JSON,
    timers: list[dict[str, JSON]],
) -> Outcome:
    return Outcome.ok(
        inputs.get("result"),
        matched=names,
        event=event,
        mode=task.literals.get("mode", "exclusive"),
        wait=task.literals.get("wait", False),
        timers=timers,
    )
