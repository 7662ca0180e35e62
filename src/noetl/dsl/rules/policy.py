"""Checks of task policies, and of policies outside tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.grammar.earlier_forms import accepted_as
from noetl.dsl.grammar.tasks import DIRECTIVES
from noetl.dsl.model import Directive, Rule, Step, Task
from noetl.dsl.node import Location, shorten
from noetl.dsl.parse import Draft
from noetl.dsl.rules.registry import Found, rule
from noetl.dsl.rules.steps import RESERVED

_LISTED = 12  # labels that a message names
_ON_TASKS = accepted_as(
    "move the rule to spec.policy.rules of a task", "it as a hint, without effect"
)
_OWNERS = {key: do for do, form in DIRECTIVES.items() for key in form.keys}


def _directives_of(step: Step) -> Iterator[Directive]:
    for task in step.tasks:
        for each in task.rules or ():
            yield each.then


def _directives(draft: Draft) -> Iterator[tuple[Step, Directive]]:
    for step in draft.playbook.workflow:
        for then in _directives_of(step):
            yield step, then


@rule("jump-target", "VAL-11")
def jumps_land_on_a_label(draft: Draft) -> Iterator[Found]:
    """A `jump` names a task of the same step."""
    for step in draft.playbook.workflow:
        labels = dict.fromkeys(task.label for task in step.tasks)
        known = ", ".join(map(shorten, islice(labels, _LISTED)))
        known += ", …" if len(labels) > _LISTED else ""
        for then in _directives_of(step):
            if then.do != "jump":
                continue
            if then.to is None:
                yield then.at, "'jump' needs 'to', a label", did_you_mean("", labels)
            elif then.to not in labels:
                message = f"jump to unknown task '{shorten(then.to)}'; known: {known}"
                yield then.at["to"], message, partial(did_you_mean, then.to, labels)


@rule("idle-parameter", "POL-08", "warning")
def parameters_have_an_effect(draft: Draft) -> Iterator[Found]:
    """`attempts`, `backoff` and `delay` belong to `retry`, `to` belongs to `jump`."""
    for _, then in _directives(draft):
        for key, owner in _OWNERS.items():
            if key in then.at and then.do != owner:
                message = f"'{key}' has no effect with do: {then.do}"
                yield then.at.key(key), message, f"it belongs to do: {owner}"


@rule("set-iter-loop", "S-22")
def iter_is_written_in_loops(draft: Draft) -> Iterator[Found]:
    """`set_iter` needs a loop around it."""
    for step, then in _directives(draft):
        if then.set_iter is not None and "loop" not in step.at:
            message = f"'set_iter' in step '{step.name}', which has no loop"
            yield (
                then.at.key("set_iter"),
                message,
                "use set_ctx, or give the step a loop",
            )


@rule("set-iter-reserved", "S-22")
def iter_keys_are_free(draft: Draft) -> Iterator[Found]:
    """`iter.index` and `iter.parent` are read-only."""
    for _, then in _directives(draft):
        patch = then.at.get("set_iter")
        for key in patch.child_keys() if patch is not None else ():
            if key.split(".")[0] in RESERVED:
                message = f"iter.{key} is read-only"
                yield patch.key(key), message, "write another key"  # type: ignore[union-attr]


@rule("parallel-ctx", "WARN-02", "warning")
def parallel_iterations_keep_out_of_ctx(draft: Draft) -> Iterator[Found]:
    """`set_ctx` in a parallel loop is write-once per key: permit it by
    `loop.spec.policy.set_ctx: write_once`."""
    for step, then in _directives(draft):
        if then.set_ctx is None or step.loop is None:
            continue
        parallel = [level for level in step.loop.levels() if level.mode == "parallel"]
        if any(not _permits_ctx(level.body) for level in parallel):
            message = "'set_ctx' from parallel iterations: each key can be written once"
            hint = "use set_iter, or permit it: loop.spec.policy.set_ctx: write_once"
            yield then.at.key("set_ctx"), message, hint


def _permits_ctx(body: object) -> bool:
    for key in ("spec", "policy", "set_ctx"):
        body = body.get(key) if isinstance(body, dict) else None
    return body == "write_once"


_EVERY_ERROR = frozenset(
    {
        "{{outcome.status=='error'}}",
        "{{outcome.status!='ok'}}",
        "{{outcome.error}}",
        "{{notoutcome.status=='ok'}}",
    }
)


@rule("rules-else", "WARN-03", "warning")
def rules_have_a_fallback(draft: Draft) -> Iterator[Found]:
    """Rules end with `else`: without it an outcome that no rule matches continues,
    even an error."""
    for step in draft.playbook.workflow:
        for task in step.tasks:
            rules = _written_rules(task)
            if rules is None or any("else" in each for each in rules.children()):
                continue
            message = f"no 'else' for '{task.label}': "
            hint = "add - else: {then: {do: continue}}"
            if any(_matches_errors(each) for each in task.rules or ()):
                message += "an outcome that no rule matches continues"
            else:
                message += "an error that no rule matches is ignored"
                hint = (
                    "add - when: \"{{ outcome.status == 'error' }}\" with "
                    "then: {do: fail}, and after it - else: {then: {do: continue}}"
                )
            yield task.at["spec"]["policy"].key("rules"), message, hint


def _matches_errors(rule: Rule) -> bool:
    """Return whether the rule is true for every error."""
    source = "" if rule.when is None else "".join(rule.when.source.split())
    return source.replace('"', "'") in _EVERY_ERROR


def _written_rules(task: Task) -> Location | None:
    """Return the rules written on the task, broken ones included."""
    at: Location | None = task.at
    for key in ("spec", "policy", "rules"):
        at = at.get(key) if at is not None else None
    return at if at is not None and at.node.is_sequence else None


@rule("scope-directive", "VAL-20")
def only_tasks_direct(draft: Draft) -> Iterator[Found]:
    """Control directives (`do:`) live in `task.spec.policy.rules` alone."""
    kinds = draft.kinds
    for scope in _scopes(draft):
        specs = [scope, *(scope[kind] for kind in kinds if kind in scope)]
        for spec in specs:
            policy = spec.get("policy")
            for at in _keys_named_do(policy):
                message = "'do' outside a task policy has no meaning"
                yield at, message, _ON_TASKS


def _scopes(draft: Draft) -> Iterator[Location]:
    """Yield every ``spec`` that is not a task's."""
    executor = draft.playbook.at.get("executor")
    owners: list[Location | None] = [executor]
    for step in draft.playbook.workflow:
        owners.append(step.at)
        loop = step.at.get("loop")
        while loop is not None:
            owners.append(loop)
            loop = loop.get("loop")
        owners.append(step.at.get("next"))
        owners.extend(arc.at for arc in (step.next.arcs if step.next else ()))
    for owner in owners:
        spec = owner.get("spec") if owner is not None else None
        if spec is not None:
            yield spec


def _keys_named_do(at: Location | None) -> Iterator[Location]:
    stack = [at] if at is not None else []
    while stack:
        here = stack.pop()
        if "do" in here:
            yield here.key("do")
        stack.extend(here.children())
