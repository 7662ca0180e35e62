"""Parser of ``workflow``: the steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, get_args

from noetl.dsl.grammar.earlier_forms import or_enabled
from noetl.dsl.grammar.steps import (
    ARC,
    JOIN,
    LOOP,
    LOOP_POLICY,
    LOOP_SPEC,
    NEXT_SPEC,
    ROUTER,
    STEP,
    STEP_POLICY,
    STEP_SPEC,
)
from noetl.dsl.model import AdmitRule, Arc, Join, Loop, Router, Step, Task
from noetl.dsl.node import Location, describe
from noetl.dsl.parse.context import Context, TemplateSite, TemplateUse
from noetl.dsl.parse.inputs import check_knobs
from noetl.dsl.parse.tasks import parse_admission, parse_pipeline
from noetl.templates import Template, Value, is_template
from noetl.types import JSON


def parse_loop(
    context: Context, at: Location, step: str, knobs: Collection[str], depth: int = 0
) -> Loop | None:
    """Return the loop; report and return None without ``in`` and ``iterator``."""
    fields = context.reader.read(at, LOOP)
    missing = [
        key
        for key, older in (("in", "collection"), ("iterator", "element"))
        if key not in at and older not in at
    ]
    if missing:
        names = " and ".join(f"'{key}'" for key in missing)
        hint = 'a loop has in: "{{ … }}" and iterator: name'
        context.report.error("VAL-03", "loop", at, f"the loop lacks {names}", hint)
    where = TemplateSite(step, "loop", depth, recorded=True, statements=False)
    items = _items(context, fields.get("in"), where)
    spec: dict[str, Location] = {}
    policy: dict[str, Location] = {}
    if "spec" in fields:
        spec = context.reader.read(fields["spec"], LOOP_SPEC, extra=knobs)
        check_knobs(context, fields["spec"])
        if "policy" in spec:
            policy = context.reader.read(spec["policy"], LOOP_POLICY)
    inner = None
    if "loop" in fields:
        inner = parse_loop(context, fields["loop"], step, knobs, depth + 1)
    if items is None or "iterator" not in fields:
        return None
    return Loop(
        items=items,
        iterator=fields["iterator"].node.value,
        mode=spec["mode"].node.value if "mode" in spec else "sequential",
        max_in_flight=_plain(spec.get("max_in_flight")),
        placement=_plain(policy.get("exec")),
        inner=inner,
        body=at.node.plain(),
        at=at,
    )


def _plain(at: Location | None) -> JSON:
    return None if at is None else at.node.value


def _items(
    context: Context, at: Location | None, where: TemplateSite
) -> Template | Value | None:
    if at is None:
        return None
    if at.node.is_sequence:
        return context.value(at, where)
    if not is_template(at.node.value):
        message = f"'in' must be a template or a list, found '{at.node.value}'"
        hint = f'write in: "{{{{ {at.node.value} }}}}"'
        context.report.error("LOOP-02", "loop-in", at, message, hint)
        return None
    return context.template(at, where)


def parse_router(context: Context, at: Location, step: str) -> Router | None:
    """Return the router at ``step.next``; report and return None if it is invalid."""
    if not at.node.is_mapping:
        return _other_shape(context, at)
    fields = context.reader.read(at, ROUTER)
    mode = "exclusive"
    if "spec" in fields:
        spec = context.reader.read(fields["spec"], NEXT_SPEC)
        mode = spec["mode"].node.value if "mode" in spec else mode
    targets = fields.get("arcs")
    if targets is None or not targets.node.is_sequence:
        return None
    if not targets.node.items:
        message = "'arcs' is empty: the router leads nowhere"
        hint = "add - step: name, or remove 'next'"
        context.report.error("VAL-13", "router", targets, message, hint)
    arcs = _arcs(context, targets, step)
    body = fields["spec"].node.plain() if "spec" in fields else {}
    return Router(mode, arcs, body, at=at)  # type: ignore[arg-type]


def _other_shape(context: Context, at: Location) -> Router | None:
    """Report a list or a bare name, which are older forms."""
    name = at.node.value if isinstance(at.node.value, str) else "name"
    message = f"'next' must be a router with 'arcs', found {describe(at.node)}"
    hint = or_enabled(f"write next: {{arcs: [{{step: {name}}}]}}")
    context.report.error("VAL-13", "router", at, message, hint)
    return None


def _arcs(context: Context, targets: Location, step: str) -> tuple[Arc, ...]:
    where = TemplateSite(step, "arc")
    recorded = TemplateSite(step, "arc", recorded=True, statements=False)
    arcs: list[Arc] = []
    for at in targets.children():
        if not at.node.is_mapping:
            message = f"an arc must be a mapping, found {describe(at.node)}"
            name = at.node.value if isinstance(at.node.value, str) else "name"
            hint = f"write - step: {name}"
            context.report.error("NEXT-04", "type", at, message, hint)
            continue
        parts = context.reader.read(at, ARC)
        when = context.guard(parts["when"], where) if "when" in parts else None
        args = context.value(parts["args"], recorded) if "args" in parts else None
        if "step" in parts:
            target = parts["step"].node.value
            arcs.append(Arc(target, when, args, at.node.plain(), at=at))
    return tuple(arcs)


_Need = Literal["all", "any"]
_YEAR = 366 * 86400.0


def parse_steps(
    context: Context, workflow: Location, knobs: Collection[str]
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for at in workflow.children():
        if not at.node.is_mapping:
            message = f"a step must be a mapping, found {describe(at.node)}"
            hint = "write - step: name"
            context.report.error("STEP-01", "type", at, message, hint)
            continue
        step = _step(context, at, knobs)
        if step is not None:
            steps.append(step)
    return tuple(steps)


def _step(context: Context, at: Location, knobs: Collection[str]) -> Step | None:
    before = len(context.uses)
    fields = context.reader.read(at, STEP)
    name = fields["step"].node.value if "step" in fields else ""
    spec: dict[str, Location] = {}
    if "spec" in fields:
        spec = context.reader.read(fields["spec"], STEP_SPEC, extra=knobs)
        check_knobs(context, fields["spec"])
    admit, best_effort = _policy(context, spec.get("policy"), name)
    loop = None
    if "loop" in fields:
        loop = parse_loop(context, fields["loop"], name, knobs)
    spec_plain = fields["spec"].node.plain() if "spec" in fields else {}
    tasks: tuple[Task, ...] = ()
    if "tool" in fields:
        outer = [context.executor_spec, spec_plain, *_loop_specs(loop)]
        depth = sum(1 for _ in loop.levels()) if loop else _depth(fields.get("loop"))
        tasks = parse_pipeline(context, fields["tool"], name, outer, depth)
    # Any shape of `next` is parsed, so that the message names the canonical form.
    router = parse_router(context, at["next"], name) if "next" in at else None
    if "step" not in fields:
        return None
    return Step(
        name=name,
        desc=fields["desc"].node.value if "desc" in fields else None,
        admit=admit,
        join=_join(context, spec.get("join")),
        best_effort=best_effort,
        deadline=_deadline(context, spec.get("deadline"), name),
        loop=loop,
        tasks=tasks,
        next=router,
        spec=spec_plain,
        keep=_kept(tasks, context.uses[before:]),
        at=at,
    )


def _kept(tasks: Sequence[Task], uses: Sequence[TemplateUse]) -> tuple[str, ...]:
    """Return the tasks whose outcomes `_outcomes` reads; a choice reads its own."""
    named: set[str] = {task.label for task in tasks if task.kind == "choose"}
    for use in uses:
        for reference in use.template.references:
            if reference.path[0] == "_outcomes":
                labels = (task.label for task in tasks)
                named.update(reference.path[1:2] or labels)
    return tuple(task.label for task in tasks if task.label in named)


def _depth(loop: Location | None) -> int:
    """Return the number of intended loops, where they are too broken to be parsed."""
    depth = 0
    while loop is not None and loop.node.is_mapping:
        depth, loop = depth + 1, loop.get("loop")
    return depth


def _loop_specs(loop: Loop | None) -> list[Mapping[str, JSON]]:
    specs = [level.body.get("spec") for level in loop.levels()] if loop else []
    return [spec for spec in specs if isinstance(spec, Mapping)]


def _policy(
    context: Context, policy: Location | None, step: str
) -> tuple[tuple[AdmitRule, ...] | None, bool]:
    if policy is None:
        return None, False
    fields = context.reader.read(policy, STEP_POLICY)
    failure = fields["failure"].node.value if "failure" in fields else None
    admit = None
    if "admit" in fields:
        admit = parse_admission(context, fields["admit"], step)
    return admit, failure == "best_effort"


def _join(context: Context, at: Location | None) -> Join | None:
    if at is None:
        return None
    fields = context.reader.read(at, JOIN)
    need: _Need | int = "all"
    if "mode" in fields:
        mode = fields["mode"].node.value
        if mode in get_args(_Need) or (isinstance(mode, int) and mode >= 1):
            need = mode
        else:
            message = f"a join's 'mode' is all, any or a number from 1, found '{mode}'"
            context.report.error("S-04", "join-mode", fields["mode"], message)
    sources = None
    if "from" in fields:
        sources = tuple(node.value for node in fields["from"].node.items)
    return Join(need, sources, at=at)


def _deadline(context: Context, at: Location | None, step: str) -> float | None:
    if at is None:
        return None
    seconds = context.duration(at, "C-30", TemplateSite(step, "admit"), _YEAR)
    if isinstance(seconds, float):
        return seconds
    message = (
        "'deadline' must be a plain duration, because its timer starts before any task"
    )
    context.report.error("C-30", "duration", at, message, "write seconds, 30s, 5m, 2h")
    return None
