"""Rewriting of ``set``: patches of ``ctx`` and ``iter`` by tasks, steps and arcs.

A task's patch becomes part of its rules. A step's patch becomes part of the rules that
end its pipeline. The patch of an arc, or of a step with a loop, is applied by a step of
its own on the way to the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from noetl.dialects.classic.task import (
    Uses,
    changed,
    listed,
    made,
    mapping,
    silent,
    text_of,
)
from noetl.dialects.classic.texts import Labelled, Vocabulary, labelled, translate
from noetl.dsl.node import Location, Node, overlay
from noetl.types import JSON

_KEYS = ("set", "set_ctx")
_ENDS = frozenset({"continue", "break"})
_GOES_ON = _ENDS | {"jump", "skip"}
_CANONICAL = "set_ctx: … and set_iter: … of a directive"
_CARRIED = "_set"

Patch = dict[str, dict[str, Node]]
"""Values by key, for ``set_ctx`` and ``set_iter``."""


class Assignments(msgspec.Struct):
    """Rewrites the patches of one step; ``relays`` are the steps that it adds."""

    uses: Uses
    name: str
    taken: set[str]
    looped: bool = False
    parallel: bool = False
    relays: list[Node] = msgspec.field(default_factory=list)

    def rewrite(self, at: Location) -> Node:
        """Return the step without ``set``."""
        loop = at.node.entries.get("loop")
        self.looped = loop is not None
        self.parallel = loop is not None and _mode_of(loop) == "parallel"
        changes: dict[str, Node | None] = {}
        tool = at.get("tool")
        if tool is not None:
            changes["tool"] = self._tool(tool)
        own = self._patch(at, "the step")
        if own and not self.looped:
            own = _of_this_step(own, self.name, labelled(tool))
            node = changes.get("tool") or made({"kind": "noop"}, at.node)
            changes["tool"] = _ending_with(node, own)
        if "next" in at:
            changes["next"] = self._next(at["next"], own if self.looped else {})
        changes |= dict.fromkeys(key for key in _KEYS if key in at)
        return changed(at.node, changes)

    def _tool(self, tool: Location) -> Node:
        if tool.node.is_sequence:
            tasks = [self._entry(each) for each in tool.children()]
            return listed(tasks, tool.node)
        return self._entry(tool)

    def _entry(self, at: Location) -> Node:
        if "kind" in at:
            return self._task(at)
        entries = {
            label: self._task(at[label]) if "kind" in body.entries else body
            for label, body in at.node.entries.items()
        }
        return mapping(entries, at.node) if entries else at.node

    def _task(self, at: Location) -> Node:
        node = at.node
        spec = at.get("spec")
        policy = spec.get("policy") if spec is not None else None
        rules = policy.get("rules") if policy is not None else None
        if rules is not None and rules.node.is_sequence:
            assert spec is not None
            assert policy is not None
            kept = [self._rule(each) for each in rules.children()]
            more = _fallback(policy.node, kept)
            inner = changed(
                policy.node,
                {"rules": listed([*kept, *more], rules.node), "on_unmatched": None},
            )
            node = changed(node, {"spec": changed(spec.node, {"policy": inner})})
        patch = self._patch(at, "the task")
        if not patch:
            return node
        return _patched(changed(node, dict.fromkeys(_KEYS)), patch, _GOES_ON)

    def _rule(self, at: Location) -> Node:
        at = Location(self._with_then(at), at.parent, at.part)
        changes: dict[str, Node | None] = {}
        if "then" in at:
            changes["then"] = self._directive(at["then"])
        other = at.get("else")
        if other is not None and "then" in other:
            then = self._directive(other["then"])
            changes["else"] = changed(other.node, {"then": then})
        return changed(at.node, changes)

    def _with_then(self, at: Location) -> Node:
        """Return the rule with its directive below ``then``."""
        node, other = at.node, at.get("else")
        if other is not None and "do" in other and "then" not in other:
            self.uses.accept(other.key("do"), "'else' without 'then'", "then: {do: …}")
            node = changed(node, {"else": mapping({"then": other.node}, other.node)})
        if "do" in node.entries and "then" not in node.entries:
            self.uses.accept(at.key("do"), "a rule without 'then'", "then: {do: …}")
            directive = {k: v for k, v in node.entries.items() if k != "when"}
            gone = dict.fromkeys(directive)
            node = changed(node, {**gone, "then": mapping(directive, node)})
        return node

    def _directive(self, at: Location) -> Node:
        if "set" not in at or not at["set"].node.is_mapping:
            return at.node
        self.uses.accept(at.key("set"), "'set'", "set_ctx: … or set_iter: …")
        return _merged(changed(at.node, {"set": None}), self._split(at["set"].node))

    def _patch(self, at: Location, owner: str) -> Patch:
        """Return the patch of a scope, and warn of it."""
        found: Patch = {}
        for key in _KEYS:
            if key in at and at[key].node.is_mapping:
                self.uses.accept(at.key(key), f"'{key}' of {owner}", _CANONICAL)
                for name, values in self._split(at[key].node).items():
                    found.setdefault(name, {}).update(values)
        return found

    def _split(self, patch: Node) -> Patch:
        """Divide the keys by their prefixes; a bare key is the execution's, or the
        iteration's where iterations run at once."""
        found: Patch = {}
        for key, value in _flat(patch):
            scope, _, name = key.partition(".")
            if scope == "iter" and name:
                target = "set_iter" if self.looped else "set_ctx"
            elif scope in ("ctx", "step") and name:
                target = "set_ctx"
            else:
                target, name = ("set_iter" if self.parallel else "set_ctx"), key
            found.setdefault(target, {})[name] = value
        return found

    def _next(self, at: Location, own: Patch) -> Node:
        arcs = at.get("arcs")
        if arcs is None or not arcs.node.is_sequence:
            return at.node
        fresh = [self._arc(arc, own) for arc in arcs.children()]
        return changed(at.node, {"arcs": listed(fresh, arcs.node)})

    def _arc(self, at: Location, own: Patch) -> Node:
        patch = {name: dict(values) for name, values in own.items()}
        if "set" in at and at["set"].node.is_mapping:
            canonical = "set_ctx: … in the step behind the arc, by the arc's args"
            self.uses.accept(at.key("set"), "'set' of an arc", canonical)
            for name, more in self._split(at["set"].node).items():
                patch.setdefault(name, {}).update(more)
        values = {**patch.get("set_iter", {}), **patch.get("set_ctx", {})}
        target = text_of(at.node.entries.get("step"))
        if not values or target is None:
            return at.node
        relay = self._relay(target, values, at.node)
        args = at.node.entries.get("args") or made({}, at.node)
        carried = overlay(args, mapping({_CARRIED: mapping(values, at.node)}, at.node))
        step = made(relay, at.node.entries["step"])
        return changed(at.node, {"set": None, "step": step, "args": carried})

    def _relay(self, target: str, values: Mapping[str, Node], at: Node) -> str:
        """Add the step that applies the patch on the way to ``target``."""
        number = 1
        while (name := f"{self.name}_set_{number}") in self.taken:
            number += 1
        self.taken.add(name)
        patch: JSON = {key: f"{{{{ args.{_CARRIED}['{key}'] }}}}" for key in values}
        then: JSON = {"do": "continue", "set_ctx": patch}
        rules: JSON = [{"else": {"then": then}}]
        step: JSON = {
            "step": name,
            "tool": {"kind": "noop", "spec": {"policy": {"rules": rules}}},
            "next": {"arcs": [{"step": target}]},
        }
        self.relays.append(made(step, at))
        return name


def _of_this_step(patch: Patch, name: str, tasks: list[Labelled]) -> Patch:
    """Return a step's patch with its own results in place of the step's name."""
    names: dict[tuple[str, ...], str] = {(name,): "outcome.result"}
    if not tasks or tasks[-1].kind != "http":
        names[name, "data"] = "(outcome.result.data | default(outcome.result))"
    for task in tasks[:-1]:
        names[name, "results", task.label] = task.result
    if tasks:
        names[name, "results", tasks[-1].label] = "outcome.result"
    words = Vocabulary(names)
    return {
        scope: {
            key: translate(Location(value), words, silent())
            for key, value in values.items()
        }
        for scope, values in patch.items()
    }


def _mode_of(loop: Node) -> str | None:
    spec = loop.entries.get("spec")
    inner = spec.entries.get("mode") if spec is not None else None
    return text_of(inner or loop.entries.get("mode"))


def _flat(patch: Node) -> Iterator[tuple[str, Node]]:
    """Yield the entries; ``ctx: {a: 1}`` is ``ctx.a: 1``."""
    for key, value in patch.entries.items():
        if key in ("ctx", "iter", "step") and value.is_mapping:
            for name, each in value.entries.items():
                yield f"{key}.{name}", each
        else:
            yield key, value


def _fallback(policy: Node, rules: list[Node]) -> list[Node]:
    """Return the rule that ``on_unmatched: fail`` stands for."""
    unmatched = text_of(policy.entries.get("on_unmatched"))
    if unmatched != "fail" or any("else" in rule.entries for rule in rules):
        return []
    return [made({"else": {"then": {"do": "fail"}}}, policy)]


def _ending_with(tool: Node, patch: Patch) -> Node:
    """Return the pipeline with the patch in every rule that ends it."""
    if not tool.is_sequence:
        return _in_entry(tool, patch, _ENDS)
    ends = [frozenset({"break"})] * (len(tool.items) - 1) + [_ENDS]
    tasks = [
        _in_entry(task, patch, each)
        for task, each in zip(tool.items, ends, strict=True)
    ]
    return listed(tasks, tool)


def _in_entry(entry: Node, patch: Patch, ends: frozenset[str]) -> Node:
    if "kind" in entry.entries:
        return _patched(entry, patch, ends)
    entries = {
        label: _patched(body, patch, ends) if "kind" in body.entries else body
        for label, body in entry.entries.items()
    }
    return mapping(entries, entry) if entries else entry


def _patched(task: Node, patch: Patch, directives: frozenset[str]) -> Node:
    """Return the task with the patch in its rules; its errors end it as before."""
    spec = task.entries.get("spec") or made({}, task)
    policy = spec.entries.get("policy") or made({}, task)
    rules = policy.entries.get("rules")
    goes_on = "continue" in directives
    if rules is None and not goes_on:
        return task
    failing: JSON = {"when": "{{ outcome.status == 'error' }}", "then": {"do": "fail"}}
    found = (
        [made(failing, task)]
        if rules is None
        else [_ruled(rule, patch, directives) for rule in rules.items]
    )
    if goes_on and not any("else" in rule.entries for rule in found):
        otherwise = made({"else": {"then": {"do": "continue"}}}, task)
        found.append(_ruled(otherwise, patch, directives))
    fresh = changed(policy, {"rules": listed(found, rules or task)})
    return changed(task, {"spec": changed(spec, {"policy": fresh})})


def _ruled(rule: Node, patch: Patch, directives: frozenset[str]) -> Node:
    other = rule.entries.get("else")
    if other is not None:
        return changed(rule, {"else": _ruled(other, patch, directives)})
    then = rule.entries.get("then")
    if then is None or text_of(then.entries.get("do")) not in directives:
        return rule
    return changed(rule, {"then": _merged(then, patch)})


def _merged(then: Node, patch: Patch) -> Node:
    """Return the directive with the patch over its own."""
    changes: dict[str, Node | None] = {}
    for name, values in patch.items():
        own = then.entries.get(name) or made({}, then)
        changes[name] = mapping({**own.entries, **values}, own)
    return changed(then, changes)
