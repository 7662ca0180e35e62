"""``playbook`` and ``workbook``: other names for what is handed over."""

from __future__ import annotations

from noetl.dialects.classic.nodes import made
from noetl.dialects.classic.results import RETURN_STEP
from noetl.dialects.classic.task import Task
from noetl.dsl.node import overlay


def rewrite_playbook(task: Task) -> None:
    payload = task.get("payload")
    if payload is not None:
        task.accept("payload", "'payload'", "args: …")
        args = task.get("args")
        both = payload if args is None else overlay(args, payload)
        task.change({"payload": None, "args": both})
    wanted = task.get("return_step")
    if wanted is not None:
        canonical = "let that step be the child's last one"
        task.accept("return_step", "'return_step'", canonical)
        args = task.get("args") or made({}, wanted)
        if not args.is_mapping:
            message = "'return_step' needs 'args' as a mapping"
            task.refuse("return_step", message, "write args: {name: …}")
            return
        named = made({RETURN_STEP: wanted.value}, wanted)
        task.change({"return_step": None, "args": overlay(args, named)})


def rewrite_workbook(task: Task) -> None:
    if "task" in task and "name" not in task:
        task.rename("task", "name")
