"""Checks of the validator: each has a name, a requirement, a message; none raises."""

from noetl.dsl.rules import policy, root, steps, tasks, templates
from noetl.dsl.rules import steps as loops
from noetl.dsl.rules import steps as routing
from noetl.dsl.rules import tasks as waits
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
