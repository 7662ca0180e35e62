"""The validator's checks: each a name, a row, a sentence; none raises."""

from noetl.dsl.rules import loops, policy, root, routing, steps, tasks, templates, waits
from noetl.dsl.rules.registry import RULES, Rule, check

__all__ = [
    "RULES",
    "Rule",
    "check",
    "loops",
    "policy",
    "root",
    "routing",
    "steps",
    "tasks",
    "templates",
    "waits",
]
