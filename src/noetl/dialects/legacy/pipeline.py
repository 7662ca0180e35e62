"""Pipeline under construction: tasks with rules that name their targets by label."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dialects.legacy.nodes import changed, make
from noetl.dsl.node import Node
from noetl.types import JSON

MARK = "__"
"""Part of the labels of generated tasks, and of no others in this dialect."""

END = None
"""Target that ends a pipeline."""


ERROR = "outcome.status == 'error'"


class Rule(msgspec.Struct, frozen=True):
    """Rule; ``when`` is an expression without braces, None for the fallback.

    ``then`` is the directive; instead of ``continue``, ``jump`` and ``break`` it may
    have ``go``: a label, or ``END``.
    """

    when: str | None
    then: dict[str, JSON]


class Task(msgspec.Struct):
    """Task; ``body`` is its final mapping, without its rules."""

    label: str
    body: Node
    rules: list[Rule]


class Pipeline:
    """Tasks in order, each with a unique label."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self._taken: set[str] = set()

    def label(self, name: str) -> str:
        """Return the name, with a number if it is taken."""
        label, number = name, 1
        while label in self._taken:
            number += 1
            label = f"{name}_{number}"
        self._taken.add(label)
        return label

    def add(
        self, label: str, body: Mapping[str, JSON] | Node, like: Node, *rules: Rule
    ) -> Task:
        task = Task(label, make(body, like), list(rules))
        self.tasks.append(task)
        return task

    def nodes(self, like: Node) -> Node:
        """Return the tasks as the grammar reads them."""
        following = [task.label for task in self.tasks[1:]] + [""]
        pairs = zip(self.tasks, following, strict=True)
        return make(
            [{task.label: _written(task, after)} for task, after in pairs], like
        )


def _is_usual(rules: list[Rule], following: str) -> bool:
    """Return whether the rules are the default: an error fails, the rest goes on."""
    ahead = following or END
    return rules == [Rule(ERROR, {"do": "fail"}), Rule(None, {"go": ahead})]


def _written(task: Task, following: str) -> Node:
    if not task.rules or _is_usual(task.rules, following):
        return task.body
    rules = [_rule(rule, following) for rule in task.rules]
    spec = task.body.entries.get("spec") or make({}, task.body)
    policy = {"policy": {"rules": rules}}
    return changed(task.body, {"spec": changed(spec, policy)})


def _rule(rule: Rule, following: str) -> dict[str, JSON]:
    then = dict(rule.then)
    if "go" in then:
        target = then.pop("go")
        if target is END:
            then = {"do": "break", **then}
        elif target == following:
            then = {"do": "continue", **then}
        else:
            then = {"do": "jump", "to": target, **then}
    if rule.when is None:
        return {"else": {"then": then}}
    return {"when": f"{{{{ {rule.when} }}}}", "then": then}
