"""Tool call of the dialect: the task, its preparation, and its rules."""

from __future__ import annotations

import json

import msgspec

from noetl.dialects.legacy.case import Call
from noetl.dialects.legacy.nodes import changed, make
from noetl.dialects.legacy.pipeline import ERROR, MARK, Pipeline, Rule
from noetl.dialects.legacy.retries import Retry
from noetl.dialects.legacy.symbols import Spelling, free_names
from noetl.dsl.node import Node
from noetl.templates import is_template
from noetl.types import JSON

_OWN = frozenset({"retry", "poll", "vars", "set_vars", "sink"})


class Failing(msgspec.Struct):
    """Handling of a failure: conditions in order, each with its target.

    If no condition is left, the step fails.
    """

    answers: list[tuple[str, str | None]]

    def rules(self, when: str, error: dict[str, JSON] | None = None) -> list[Rule]:
        found = [
            Rule(f"{when} and {left}" if left else when, {"go": target})
            for left, target in self.answers
        ]
        if self.answers and not self.answers[-1][0]:
            return found
        fail: dict[str, JSON] = {"do": "fail"}
        if error is not None:
            fail["error"] = error
        return [*found, Rule(when, fail)]


class Unit(msgspec.Struct):
    """Call with its labels.

    ``begin`` is recorded before it, where more than the tool's own start is needed;
    ``wait`` is between two polls.
    """

    call: Call
    label: str
    begin: str | None
    wait: str | None

    @property
    def first(self) -> str:
        return self.begin or self.label


def plan(pipeline: Pipeline, call: Call, name: str | None = None) -> Unit:
    label = pipeline.label((name or call.name).replace(MARK, "_"))
    says_more = call.poll is not None or call.args
    begin = pipeline.label(f"{label}{MARK}begin") if says_more else None
    wait = pipeline.label(f"{label}{MARK}wait") if call.poll is not None else None
    return Unit(call, label, begin, wait)


def build(
    pipeline: Pipeline,
    unit: Unit,
    spelling: Spelling,
    retry: Retry | None,
    failing: Failing,
    after: list[Rule],
    patch: dict[str, JSON],
) -> None:
    """Add the call's tasks.

    ``after`` is the target of a success, ``patch`` its changes of ``ctx``.
    """
    call, like = unit.call, unit.call.tool.node
    if unit.begin is not None:
        pipeline.add(unit.begin, _begin(unit, spelling), like, _go(unit.label))
    rules: list[Rule] = []
    if retry is not None:
        rules += _retries(retry, failing)
    rules += failing.rules(ERROR)
    if call.poll is not None:
        rules += _polls(unit, spelling, failing)
    rules += [_patched(rule, patch) for rule in after]
    pipeline.add(unit.label, _body(call, spelling), like, *rules)


def build_wait(pipeline: Pipeline, unit: Unit) -> None:
    """Add the wait between two polls, where no other task falls through to it."""
    if unit.wait is not None and unit.call.poll is not None:
        body = {"kind": "wait", "for": unit.call.poll.interval}
        pipeline.add(unit.wait, body, unit.call.tool.node, _go(unit.label))


def _go(label: str | None) -> Rule:
    return Rule(None, {"go": label})


def _patched(rule: Rule, patch: dict[str, JSON]) -> Rule:
    return Rule(rule.when, {**rule.then, "set_ctx": patch}) if patch else rule


def _begin(unit: Unit, spelling: Spelling) -> dict[str, JSON]:
    note: dict[str, JSON] = {"of": unit.label}
    body: dict[str, JSON] = {"kind": "noop"}
    if unit.call.args:
        note["args"] = {
            name: spelling.tree(node) for name, node in unit.call.args.items()
        }
    if unit.call.poll is not None:
        poll = unit.call.poll
        note["poll"] = {
            "interval": poll.interval,
            "max_attempts": poll.attempts,
            "deadline": poll.deadline,
        }
        body["result"] = {
            "before": f"{{{{ _outcomes.{unit.wait}.visits | default(0) }}}}"
        }
    return {**body, "note": note}


def _retries(retry: Retry, failing: Failing) -> list[Rule]:
    when = ERROR if retry.on is None else f"{ERROR} and ({retry.on})"
    if failing.answers:  # another rule handles the last failure
        when = f"{when} and _attempt < {retry.attempts}"
    then: dict[str, JSON] = {"do": "retry", "attempts": retry.attempts}
    delay = retry.wait()
    if delay is not None:
        then["delay"] = f"{{{{ {delay} }}}}"
    return [Rule(when, then)]


def _polls(unit: Unit, spelling: Spelling, failing: Failing) -> list[Rule]:
    poll = unit.call.poll
    assert poll is not None
    until = spelling.with_names(result="outcome.result").expression(
        poll.until.node.value
    )
    again = f"not ({until})"
    used = (
        f"(_outcomes.{unit.wait}.visits | default(0)) - "
        f"_outcomes.{unit.begin}.result.before + 1"
    )
    spent: list[str] = []
    if poll.attempts is not None:
        spent.append(f"{used} >= {poll.attempts}")
    if poll.deadline is not None:
        began = f"(_outcomes.{unit.begin}.meta.ts | timestamp)"
        spent.append(f"(outcome.meta.ts | timestamp) - {began} >= {poll.deadline}")
    rules: list[Rule] = []
    if spent:
        bounds = " or ".join(spent)
        message = f"task '{unit.call.name}' was polled until its limit"
        error: dict[str, JSON] = {
            "kind": "poll.timeout",
            "message": message,
            "details": {"attempts": f"{{{{ {used} }}}}"},
        }
        rules = failing.rules(f"{again} and ({bounds})", error)
    return [*rules, Rule(again, {"go": unit.wait})]


def _body(call: Call, spelling: Spelling) -> Node:
    """Return the tool's mapping as a canonical task."""
    node, entries = call.tool.node, dict[str, JSON]()
    kind = node.entries.get("kind")
    if kind is not None and kind.value == "python":
        entries.update(_code_args(call, spelling))
        inner = spelling
    else:
        texts = {name: _expression(arg, spelling) for name, arg in call.args.items()}
        inner = spelling.with_names(**texts)
    spec = node.entries.get("spec")
    if spec is not None and spec.is_mapping:
        gone = {"async"}
        if type(spec.entries.get("retry", spec).value) is int:
            gone.add("retry")
        entries["spec"] = inner.tree(changed(spec, {}, frozenset(gone)))
    body = inner.tool(changed(node, {}, _OWN | {"args", "spec"}))
    return changed(body, entries)


def _code_args(call: Call, spelling: Spelling) -> dict[str, JSON]:
    """Return ``args``, with the names that the code expects."""
    args: dict[str, JSON] = {
        name: spelling.tree(node) for name, node in call.args.items()
    }
    code = call.tool.node.entries.get("code")
    if code is not None and isinstance(code.value, str):
        known = spelling.book.known | spelling.names.keys()
        for name in sorted(free_names(code.value) & known - args.keys()):
            args[name] = spelling.text(f"{{{{ {name} }}}}")
    return {"args": make(args, call.tool.node)} if args else {}


def _expression(node: Node, spelling: Spelling) -> str:
    """Return an argument as an expression: its template, or a constant."""
    value = node.value
    if isinstance(value, str) and is_template(value):
        text = value.strip()
        if text.count("{{") == 1 and text.startswith("{{") and text.endswith("}}"):
            return f"({spelling.expression(value)})"
        parts = [f"({spelling.expression(part)})" for part in _pieces(text)]
        return f"({' ~ '.join(parts)})"
    return _constant(node.plain())


def _pieces(text: str) -> list[str]:
    """Split a text into constants and ``{{ expressions }}``."""
    pieces: list[str] = []
    while text:
        start = text.find("{{")
        end = text.find("}}", start) + 2 if start >= 0 else 0
        if start < 0 or end < 2:
            return [*pieces, _constant(text)]
        if start:
            pieces.append(_constant(text[:start]))
        pieces.append(text[start:end])
        text = text[end:]
    return pieces


def _constant(value: JSON) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{_constant(k)}: {_constant(v)}" for k, v in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_constant, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
