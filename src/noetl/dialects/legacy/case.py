"""``case``: branches in order, each with its chain."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.dialects.legacy.actions import Call, Wish, read_chain
from noetl.dialects.legacy.retries import Retry, read_retry
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.shape import ANY, GUARD, MAPPING, Field, Record, Shape
from noetl.dsl.node import Node, describe
from noetl.dsl.place import Place

BRANCH = Record(
    "legacy_branch",
    "a branch of 'case'",
    {
        "when": Field(GUARD, "LEG-CASE-01", "The condition."),
        "then": Field(ANY, "LEG-CASE-01", "The chain."),
        "else": Field(ANY, "LEG-CASE-07", "The chain if no condition holds."),
        "priority": Field(Shape(("integer",)), "LEG-CASE-06", "The highest first."),
        "retry": Field(ANY, "LEG-RETRY-05", "The chain's retry."),
        "spec": Field(MAPPING, "LEG-CASE-01", "Hints."),
    },
)
ELSE = "else"


class Branch(msgspec.Struct):
    """``when`` is None for the fallback."""

    name: str
    at: Place
    when: Node | None
    actions: list[Call | Wish]
    priority: int
    retry: Retry | None


def read_case(case: Place, by_priority: bool, report: Report) -> list[Branch]:
    """The branches in branch order (C-41), the fallback last."""
    if not case.node.is_sequence:
        message = f"'case' must be a list of branches, found {describe(case.node)}"
        hint = 'write - when: "{{ … }}" with a then: below it'
        report.error("LEG-CASE-01", "type", case, message, hint)
        return []
    branches = list(_branches(case, report))
    if by_priority:
        branches.sort(key=lambda branch: -branch.priority)
    return sorted(branches, key=lambda branch: branch.when is None)


def _branches(case: Place, report: Report) -> Iterator[Branch]:
    fallback: Place | None = None
    for number, at in enumerate(case.children()):
        if not at.node.is_mapping:
            message = f"a branch must be a mapping, found {describe(at.node)}"
            report.error("LEG-CASE-01", "type", at, message, 'write - when: "{{ … }}"')
            continue
        parts = Reader(report).read(at, BRANCH)
        if ("when" in at) == ("else" in at):
            message = "a branch has either 'when' with 'then', or 'else'"
            report.error("LEG-CASE-01", "branch", at, message, "keep one of them")
            continue
        if "else" in at:
            if fallback is not None:
                message = f"a second 'else'; the first is at line {fallback.mark[0]}"
                report.error("LEG-CASE-07", "branch", at.key("else"), message)
                continue
            fallback = at
        chain = parts.get("else") or parts.get("then")
        retry, priority = parts.get("retry"), parts.get("priority")
        if "when" in at and "when" not in parts:
            continue
        yield Branch(
            ELSE if "else" in at else f"case_{number}",
            at,
            parts["when"].node if "when" in parts else None,
            list(read_chain(chain, report)) if chain is not None else [],
            priority.node.value if priority is not None else 0,
            None if retry is None else read_retry(retry, report),
        )
