"""Redaction of executions whose playbooks are marked as sensitive.

With ``metadata.sensitive: true``, callers without ``payloads:read`` see the status,
times and error kinds of an execution; inputs and outputs of tasks are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl.types import JSON

PAYLOADS = "payloads:read"
HIDDEN = "hidden: the playbook is marked as sensitive, and payloads:read is needed"
_WAIT = ("step", "task", "on", "since", "until", "iteration_id")


def is_sensitive(playbook: Mapping[str, JSON]) -> bool:
    """Return True if the playbook record in the log is marked as sensitive."""
    return playbook.get("sensitive") is True


def hide_in_line(line: dict[str, JSON]) -> dict[str, JSON]:
    """Hide the data in a line of a listing, including the ``concurrency`` key."""
    hidden = {**line, "error": _hide_error(line["error"]), "concurrency": None}
    if "waits" in line:
        hidden["waits"] = [_hide_wait(each) for each in line["waits"]]
    return hidden


def hide_in_document(document: dict[str, JSON]) -> dict[str, JSON]:
    """Hide every member of an execution's document that holds data."""
    return {
        **hide_in_line(document),
        "workload": {},
        "ctx": {},
        "result": None,
        "steps": [_hide_step(each) for each in document["steps"]],
        "ignored_errors": _hide_messages(document["ignored_errors"]),
        "no_arc_fired": [{**each, "nearest": {}} for each in document["no_arc_fired"]],
        "undefined_names": [
            {**each, "nearest": None} for each in document["undefined_names"]
        ],
    }


def _hide_step(step: dict[str, JSON]) -> dict[str, JSON]:
    error = _hide_error(step["error"])
    hidden = {**step, "args": {}, "result": None, "error": error}
    if step.get("errors"):
        hidden["errors"] = _hide_messages(step["errors"])
    if step.get("ignored"):
        hidden["ignored"] = {**step["ignored"], "message": HIDDEN}
    return hidden


def _hide_messages(errors: Iterable[dict[str, JSON]]) -> list[dict[str, JSON]]:
    return [{**each, "message": HIDDEN} for each in errors]


def _hide_error(error: dict[str, JSON] | None) -> dict[str, JSON] | None:
    if error is None:
        return None
    kept = {name: error.get(name) for name in ("kind", "step", "task")}
    return {**kept, "message": HIDDEN}


def _hide_wait(wait: dict[str, JSON]) -> dict[str, JSON]:
    return {name: wait[name] if name in _WAIT else None for name in wait}
