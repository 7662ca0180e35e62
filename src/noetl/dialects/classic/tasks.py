"""Tasks: whatever their kind, then each kind's own inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from noetl.dialects.classic.children import rewrite_playbook, rewrite_workbook
from noetl.dialects.classic.code import rewrite_python
from noetl.dialects.classic.nodes import listed, mapping, text_of
from noetl.dialects.classic.shells import rewrite_shell
from noetl.dialects.classic.sql import (
    rewrite_duckdb,
    rewrite_ducklake,
    rewrite_postgres,
)
from noetl.dialects.classic.task import Task
from noetl.dialects.classic.transfers import rewrite_nats, rewrite_transfer
from noetl.dialects.classic.uses import Uses
from noetl.dialects.classic.web import rewrite_http
from noetl.dsl.node import Node, overlay
from noetl.dsl.place import Place

_KINDS: Mapping[str, Callable[[Task], None]] = {
    "ducklake": rewrite_ducklake,
    "duckdb": rewrite_duckdb,
    "http": rewrite_http,
    "nats": rewrite_nats,
    "playbook": rewrite_playbook,
    "postgres": rewrite_postgres,
    "python": rewrite_python,
    "script": rewrite_shell,
    "shell": rewrite_shell,
    "transfer": rewrite_transfer,
    "workbook": rewrite_workbook,
}


def rewrite_tool(tool: Place, uses: Uses) -> Node:
    """A pipeline in any of its shapes; what is no task is left to the grammar."""
    if tool.node.is_sequence:
        return listed([rewrite_entry(at, uses) for at in tool.children()], tool.node)
    return rewrite_entry(tool, uses)


def rewrite_entry(at: Place, uses: Uses) -> Node:
    if "kind" in at:
        return rewrite_task(at, uses)
    if "tool" in at and "kind" in at["tool"]:
        return rewrite_task(_lifted(at, uses), uses)
    entries = dict(at.node.entries)
    for label, body in entries.items():
        if "kind" in body.entries:
            entries[label] = rewrite_task(at[label], uses)
    return mapping(entries, at.node) if entries else at.node


def _lifted(at: Place, uses: Uses) -> Place:
    """``{name, tool: {kind, …}}`` with the tool's fields one level up."""
    what = "a task inside of 'tool'"
    uses.accept(at.key("tool"), what, "its fields one level up")
    tool = at.node.entries["tool"]
    rest = {key: each for key, each in at.node.entries.items() if key != "tool"}
    node = overlay(mapping(rest, at.node), tool)
    return Place(node, at.parent, at.part)


def _name_credential(task: Task) -> None:
    """``auth: {credential: name}`` is the name."""
    auth = task.get("auth")
    name = auth.entries.get("credential") if auth is not None else None
    if name is not None and isinstance(name.value, str):
        task.accept("auth", "'auth' with a 'credential'", "auth: name")
        task.change({"auth": name})


def rewrite_task(at: Place, uses: Uses) -> Node:
    task = Task(at, uses)
    _name_credential(task)
    kind = text_of(at.node.entries.get("kind"))
    rewrite_kind = _KINDS.get(kind or "")
    if rewrite_kind is not None:
        rewrite_kind(task)
        if "timeout" in task:
            task.to_spec("timeout")
    return task.node
