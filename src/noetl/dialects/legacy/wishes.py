"""``next`` as an action: a wish that is recorded, and the arcs that grant it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.dialects.legacy.actions import Target, Wish
from noetl.dialects.legacy.book import Book
from noetl.dialects.legacy.nodes import make
from noetl.dialects.legacy.pipeline import END, MARK, Pipeline, Rule, Task
from noetl.dialects.legacy.spelling import Spelling
from noetl.dsl.node import Node
from noetl.templates import is_template
from noetl.types import JSON


class Wished(msgspec.Struct):
    """A wish with its place in the step: its label, its branch, its policy."""

    wish: Wish
    label: str
    branch: str
    policy: str

    @property
    def first(self) -> str:
        return self.label


def wish_body(wished: Wished, spelling: Spelling, result: str) -> dict[str, JSON]:
    """The task that records a wish; what the step came to so far is its result."""
    wish = wished.wish
    targets: list[JSON] = [
        {
            "step": spelling.tree(target.step),
            "with": {name: spelling.tree(node) for name, node in target.args.items()},
        }
        for target in wish.targets
    ]
    note: dict[str, JSON] = {
        "label": wished.label,
        "branch": wished.branch,
        "to": targets,
        "policy": wished.policy,
        "priority": wish.priority,
        "delay": wish.delay,
    }
    return {
        "kind": "noop",
        "result": f"{{{{ {result} | default(none) }}}}",
        "note": {"next": note},
    }


def build_route(
    pipeline: Pipeline,
    label: str,
    wished: list[Wished],
    unasked: str | None,
    like: Node,
) -> list[Task]:
    """The end of an epoch: the wish that wins, and its delay (C-43).

    ``unasked`` is where the step goes if nobody wished anything.
    """
    ranked = sorted(wished, key=lambda each: -each.wish.priority)
    winner = "none"
    for each in reversed(ranked):
        note = f"_outcomes.{each.label}.noop.note.next"
        winner = f"({note} if _outcomes.{each.label} else {winner})"
    body: dict[str, JSON] = {
        "kind": "noop",
        "result": "{{ _prev }}",
        "note": {"route": f"{{{{ {winner} }}}}"},
    }
    rules = [Rule("not outcome.noop.note.route", {"go": unasked})]
    tasks: list[Task] = []
    if any(each.wish.delay for each in wished):
        wait, end = (
            pipeline.label(f"route{MARK}wait"),
            pipeline.label(f"route{MARK}end"),
        )
        rules.append(Rule("outcome.noop.note.route.delay > 0", {"go": wait}))
        delay = f"{{{{ _outcomes.{label}.noop.note.route.delay }}}}"
        waiting = make({"kind": "wait", "for": delay}, like)
        result = f"{{{{ _outcomes.{label}.result }}}}"
        ending = make({"kind": "noop", "result": result}, like)
        tasks = [
            Task(wait, waiting, [Rule(None, {"go": end})]),
            Task(end, ending, [Rule(None, {"go": END})]),
        ]
    rules.append(Rule(None, {"go": END}))
    return [Task(label, make(body, like), rules), *tasks]


def arcs_of(wished: list[Wished], route: str | None, book: Book) -> Iterator[Node]:
    """An arc for each step that a wish may lead to."""
    for each in wished:
        note = f"_outcomes.{each.label}.noop.note.next"
        granted = f"_outcomes.{each.label}"
        if route is not None:
            granted = f"_outcomes.{route}.noop.note.route.label == '{each.label}'"
        for number, target in enumerate(each.wish.targets):
            told = f"{note}.to[{number}]"
            args: dict[str, JSON] = {
                name: f"{{{{ {told}.with.{name} }}}}" for name in target.args
            }
            for step, guard in _candidates(target, f"{told}.step", book):
                when = f"event.name == 'step.done' and {granted}{guard}"
                arc: dict[str, JSON] = {"step": step, "when": f"{{{{ {when} }}}}"}
                if args:
                    arc["args"] = args
                yield make(arc, target.step)


def _candidates(target: Target, told: str, book: Book) -> Iterator[tuple[JSON, str]]:
    """The steps that a target can name, each with what must hold beside."""
    text = target.step.value
    if not is_template(text):
        yield target.step, ""
        return
    for step in named_in(text, book):
        yield step, f" and {told} == '{step}'"


def named_in(text: str, book: Book) -> list[str]:
    """Steps that a template spells out; every step where it spells out none."""
    spelled = [
        name
        for name in sorted(book.steps)
        if f"'{name}'" in text or f'"{name}"' in text
    ]
    return spelled or sorted(book.steps)
