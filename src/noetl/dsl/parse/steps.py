"""``workflow``: the steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, get_args

from noetl.dsl.grammar.steps import JOIN, STEP, STEP_POLICY, STEP_SPEC
from noetl.dsl.model import AdmitRule, Join, Loop, Step, Task
from noetl.dsl.node import describe
from noetl.dsl.parse.context import Context, Spot, TemplateUse
from noetl.dsl.parse.knobs import check_knobs
from noetl.dsl.parse.loops import parse_loop
from noetl.dsl.parse.policies import parse_admission
from noetl.dsl.parse.routers import parse_router
from noetl.dsl.parse.tasks import parse_pipeline
from noetl.dsl.place import Place
from noetl.types import JSON

_Need = Literal["all", "any"]
_YEAR = 366 * 86400.0


def parse_steps(
    context: Context, workflow: Place, knobs: Collection[str]
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


def _step(context: Context, at: Place, knobs: Collection[str]) -> Step | None:
    before = len(context.uses)
    fields = context.reader.read(at, STEP)
    name = fields["step"].node.value if "step" in fields else ""
    spec: dict[str, Place] = {}
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
    # Any shape of `next` is looked at, so that its complaint names the right form.
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
    """The tasks whose outcomes are read by `_outcomes`; a choice reads its own."""
    named: set[str] = {task.label for task in tasks if task.kind == "choose"}
    for use in uses:
        for reference in use.template.references:
            if reference.path[0] == "_outcomes":
                labels = (task.label for task in tasks)
                named.update(reference.path[1:2] or labels)
    return tuple(task.label for task in tasks if task.label in named)


def _depth(loop: Place | None) -> int:
    """How many loops were meant, where they are too broken to be parsed."""
    depth = 0
    while loop is not None and loop.node.is_mapping:
        depth, loop = depth + 1, loop.get("loop")
    return depth


def _loop_specs(loop: Loop | None) -> list[Mapping[str, JSON]]:
    specs = [level.body.get("spec") for level in loop.levels()] if loop else []
    return [spec for spec in specs if isinstance(spec, Mapping)]


def _policy(
    context: Context, policy: Place | None, step: str
) -> tuple[tuple[AdmitRule, ...] | None, bool]:
    if policy is None:
        return None, False
    fields = context.reader.read(policy, STEP_POLICY)
    failure = fields["failure"].node.value if "failure" in fields else None
    admit = None
    if "admit" in fields:
        admit = parse_admission(context, fields["admit"], step)
    return admit, failure == "best_effort"


def _join(context: Context, at: Place | None) -> Join | None:
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


def _deadline(context: Context, at: Place | None, step: str) -> float | None:
    if at is None:
        return None
    seconds = context.duration(at, "C-30", Spot(step, "admit"), _YEAR)
    if isinstance(seconds, float):
        return seconds
    message = "'deadline' must be a plain duration: it is armed before anything runs"
    context.report.error("C-30", "duration", at, message, "write seconds, 30s, 5m, 2h")
    return None
