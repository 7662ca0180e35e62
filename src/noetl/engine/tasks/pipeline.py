"""The pipeline of a worker: takes an outcome, returns the next move, without I/O.

pipeline = Pipeline(step.tasks, frame, progress)
while isinstance(move := pipeline.next(), Call):
    outcome = await tool.run(move)              # done by the executor
    done = pipeline.take(outcome, meta)         # the payload of task.done
move                                            # Ended
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from noetl.dsl.model import Task
from noetl.engine import ids
from noetl.engine.events import TaskDone
from noetl.engine.runs import (
    Progress,
    Waiting,
    iteration_id,
    note_done,
    note_started,
)
from noetl.engine.secrets.handles import Secrets
from noetl.engine.state import Frame
from noetl.engine.tasks.outcome import Failure, Meta, Outcome, Stored, envelope
from noetl.engine.tasks.policy import (
    Verdict,
    error_of_rules,
    exhausted,
    failure_of,
    judge,
    payload_of,
    skip_before,
    too_many_names,
)
from noetl.engine.tasks.scope import Scope, apply_patch, place_of
from noetl.engine.values.references import (
    WORKER_LIMIT,
    Values,
    claims_reference,
    make_reference,
)
from noetl.engine.values.spilling import placed
from noetl.engine.waits.suspend import (
    SUSPENDING,
    answer_of,
    child_of,
    choose,
    choose_event,
    listen,
    wait_of,
)
from noetl.errors import TemplateError
from noetl.templates import Decision
from noetl.types import JSON


class Call(msgspec.Struct, frozen=True):
    """A tool call to make; if ``outcome`` is set, the tool is not called.

    With ``begun`` its ``task.started`` is in the log already: a wait has ended.
    """

    task: Task
    task_run_id: str
    action_id: str
    attempt: int
    inputs: dict[str, JSON]
    spec: dict[str, JSON]
    outcome: Outcome | None = None
    begun: bool = False


class Wait(msgspec.Struct, frozen=True):
    """A pause in seconds, after which ``next`` is called again."""

    seconds: float


class Ended(msgspec.Struct, frozen=True):
    status: Literal["done", "failed"]
    result: JSON = None
    error: dict[str, JSON] | None = None


class Pipeline:
    """The tasks of one run or iteration, executed one at a time."""

    def __init__(
        self,
        tasks: Sequence[Task],
        frame: Frame,
        progress: Progress,
        values: Values | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        self._secrets = secrets or Secrets()
        self._tasks = {task.label: task for task in tasks}
        self._following = dict(pairwise(self._tasks))
        self._frame = frame
        self._command_id = iteration_id(frame.step_run_id, frame.path)
        self._skip: Verdict | None = None
        self._refused: Failure | None = None  # rules do not apply to this error
        self._values = values or Values(WORKER_LIMIT)
        self._spilled = frame.spilled
        self.progress = progress
        self._before: Scope | None = None  # scope of the task's inputs
        self.ctx: Mapping[str, JSON] = frame.ctx

    def next(self) -> Call | Wait | Ended:
        """Return the next move. A call has begun: its ``task.started`` must be
        recorded.

        Raises ``Unloaded`` before anything has changed.
        """
        progress = self.progress
        if progress.end is not None:
            return Ended(progress.end, progress.result, progress.error)
        if progress.delay > 0 and not progress.started:
            seconds, progress.delay = progress.delay, 0.0
            return Wait(seconds)
        label = progress.label
        assert label is not None
        task = self._tasks[label]
        scope = self._before = self._scope(label)
        waiting = progress.waiting
        if waiting is not None and waiting.on not in ("delay", "limit"):
            if waiting.on == "event":
                return self._call_after_event(task, scope, waiting)
            return self._answered(task, scope, answer_of(waiting))
        inputs: dict[str, JSON] = {}
        spec: dict[str, JSON] = {}
        self._skip = None
        self._refused = self._find_refusal(task, scope)
        outcome: Outcome | None = None
        try:
            if self._refused is not None:
                outcome = Outcome("error", None, self._refused)
            elif self._skip is None:
                inputs = _render(task, scope, self._secrets)
                spec = task.knobs.render(scope) if task.spec else {}
                if task.kind == "choose":
                    outcome = choose(task, inputs, scope)
        except TemplateError as error:
            details = error.details()
            outcome = Outcome.failed(error.kind, error.message, details=details)
        note_started(progress)
        if outcome is None and progress.in_doubt and spec.get("on_in_doubt") == "fail":
            outcome = _in_doubt(label, progress.attempt)
        most = self._frame.most_lost
        if outcome is None and most is not None and progress.in_doubt >= most:
            outcome = _poisonous(label, progress.in_doubt)
        return Call(
            task,
            progress.task_run_id(self._command_id),
            scope["_action_id"],
            progress.attempt,
            inputs,
            spec,
            Outcome.ok() if self._skip is not None else outcome,
        )

    def renew(self, ctx: Mapping[str, JSON], *, spilled: bool) -> None:
        """Replace ``ctx`` by the server's, in which large values are references:
        templates of the next task load them (S-48)."""
        self.ctx = ctx
        self._spilled = self._spilled or spilled

    def suspension(self, call: Call) -> dict[str, JSON] | Outcome | None:
        """Return what the call waits for, if its kind suspends (S-68); None
        otherwise."""
        if call.task.kind not in SUSPENDING or call.outcome is not None:
            return None
        if call.task.kind == "wait":
            return wait_of(call.inputs)
        if call.task.kind == "choose":
            before = self.progress.outcomes.get(call.task.label)
            return listen(call.inputs, self.progress.waiting, before)
        iteration = self.progress.iter
        parent_id = self._frame.execution_id
        return child_of(
            call.inputs, call.spec, parent_id, call.action_id, call.attempt, iteration
        )

    def _answered(self, task: Task, scope: Scope, outcome: Outcome) -> Call:
        self._skip = self._refused = None
        progress = self.progress
        return Call(
            task,
            progress.task_run_id(self._command_id),
            scope["_action_id"],
            progress.attempt,
            {},
            {},
            outcome,
            begun=True,
        )

    def _call_after_event(self, task: Task, scope: Scope, waiting: Waiting) -> Call:
        """Return the call for an event or timer; without an outcome, no guard accepts
        it."""
        inputs: dict[str, JSON] = {}
        try:
            inputs = _render(task, scope, self._secrets)
            outcome = choose_event(task, inputs, scope, waiting)
        except TemplateError as error:
            message = scope.describe(error)
            outcome = Outcome.failed(error.kind, message, details=error.details())
        if outcome is not None:
            return self._answered(task, scope, outcome)
        call = self._answered(task, scope, Outcome.ok())
        return msgspec.structs.replace(call, inputs=inputs, outcome=None)

    def take(self, outcome: Outcome, meta: Meta) -> TaskDone:
        """Judge the outcome, apply it, and return the payload of ``task.done``.

        The outcome is redacted first (S-41). Raises ``Unloaded`` before anything has
        changed.
        """
        label = self.progress.label
        assert label is not None
        task = self._tasks[label]
        # The server writes the answer of a wait, so it may be a reference; the result
        # of a choice comes from a template.
        is_answer = self.progress.waiting is not None and task.kind != "choose"
        if not self._secrets.is_empty:
            outcome = self._secrets.redact_outcome(outcome)
            if not is_answer and task.kind != "secrets":
                outcome = self._secrets.mask_handles(outcome)
        given = outcome if is_answer else _checked(outcome)
        body = envelope(given, task.kind, meta)
        if given.stored:
            self._spilled = True
            body["result"] = _referring(body["result"], given.stored)
        payload = self._judged(task, body)
        if given.stored:
            payload["spilled"] = [f"outcome.result.{path}" for path in given.stored]
        directive = payload["directive"]
        if directive["do"] in ("continue", "skip"):
            directive["next"] = self._following.get(label)
        elif directive["do"] == "jump":
            directive["next"] = directive["to"]
        if payload.get("set_ctx"):
            self.ctx = apply_patch(self.ctx, payload["set_ctx"])
        note_done(self.progress, payload)
        return payload

    def _judged(self, task: Task, outcome: dict[str, JSON]) -> TaskDone:
        if self._refused is not None:
            return failure_of(outcome, task.label, outcome["error"])
        attempt = self.progress.attempt
        scope = self._scope_after(task.label)
        scope["outcome"] = outcome
        try:
            verdict = self._skip or judge(task.rules, scope, attempt)
        except TemplateError as error:  # S-32: fail closed, with the reason
            message = scope.describe(error)
            failure = Failure(error.kind, message, details=error.details())
            return failure_of(outcome, task.label, error_of_rules(outcome, failure))
        if verdict.do == "retry" and attempt >= (verdict.attempts or 1):
            return exhausted(outcome, task.label, verdict, attempt)
        if verdict.do == "fail":
            why = verdict.error or outcome["error"]
            return failure_of(outcome, task.label, why, verdict)
        problem = too_many_names(verdict)
        if problem is not None:
            return failure_of(outcome, task.label, msgspec.to_builtins(problem))
        return payload_of(outcome, verdict)

    def _find_refusal(self, task: Task, scope: Scope) -> Failure | None:
        """Return why the pipeline must fail whatever its rules are, or None (S-32,
        S-36)."""
        if self.progress.tasks >= self._frame.task_runs:
            limit = f"the pipeline has run {self._frame.task_runs:,} tasks, its limit"
            return Failure("limit.exceeded", limit)
        try:
            self._skip = skip_before(task.rules, scope) if task.rules else None
        except TemplateError as error:
            return Failure(error.kind, error.message, details=error.details())
        return None

    def _scope_after(self, label: str) -> Scope:
        """Return the scope of the rules. It is built again if the call may have fetched
        secrets or stored values."""
        secrets, scope = self._secrets, self._before
        if scope is None or self._spilled or secrets.keychain or secrets.sealed:
            return self._scope(label)
        scope["ctx"] = self.ctx
        scope.decision = Decision()
        return scope

    def _scope(self, label: str) -> Scope:
        frame, progress = self._frame, self.progress
        action = ids.action_id(
            frame.execution_id,
            frame.step_run_id,
            label,
            frame.path,
            progress.visits[label],
        )
        scope = Scope(
            workload=frame.workload,
            ctx=self.ctx,
            args=frame.args,
            execution_id=frame.execution_id,
            execution={"started_at": frame.started_at},
            _prev=progress.prev,
            _task=label,
            _attempt=progress.attempt,
            _action_id=action,
            _outcomes=progress.outcomes,
            keychain=self._secrets.keychain,
        )
        if progress.iter is not None:
            scope["iter"] = progress.iter
        scope.decision = Decision()
        if self._spilled or not self._secrets.is_empty:
            scope.hold(self._secrets, self._values.begin() if self._spilled else None)
        return scope


def _render(task: Task, scope: Scope, secrets: Secrets) -> dict[str, JSON]:
    """Render the inputs; an error names the input (S-31).

    A tool gets secrets, and the credential that ``auth`` names (KEY-07). Inputs of
    kinds that the server executes are recorded, so they hold no secrets.
    """
    if task.kind in SUSPENDING:
        return _render_each(task, scope.recorded())
    inputs = _render_each(task, scope)
    auth = inputs.get("auth")
    if isinstance(auth, str) and auth in secrets.keychain:
        secret = secrets.keychain[auth]
        inputs["auth"] = secret if isinstance(secret, dict) else {"value": secret}
    return inputs


def _render_each(task: Task, scope: Scope) -> dict[str, JSON]:
    inputs: dict[str, JSON] = {}
    for name, value in task.inputs.items():
        try:
            inputs[name] = value.render(scope)
        except TemplateError as error:
            message = f"input '{name}' of task '{task.label}': {error.message}"
            located = TemplateError(error.kind, message, hint=error.hint)
            located.place = place_of(task.at.get(name), error)
            raise located from None
    inputs.update(task.literals)
    return inputs


def _in_doubt(label: str, attempt: int) -> Outcome:
    message = (
        f"the worker of attempt {attempt} of '{label}' was lost; whether the call took "
        "effect is unknown, and on_in_doubt is fail"
    )
    return Outcome.failed("worker.lost", message)


def _poisonous(label: str, lost: int) -> Outcome:
    message = (
        f"{lost} workers in a row were lost while they ran '{label}': it is not run "
        "again"
    )
    return Outcome.failed("worker.lost", message)


def _checked(outcome: Outcome) -> Outcome:
    """Return the outcome, or a failure for a result that is not JSON or forged
    (S-48)."""
    try:
        if not claims_reference(outcome.result):
            return outcome
    except (TypeError, ValueError) as error:
        return Outcome.failed("tool.contract", f"the result is not JSON: {error}")
    message = "the result claims to be a reference of NoETL's own store"
    return Outcome.failed("ref.not_owner", message)


def _referring(result: JSON, stored: Mapping[str, Stored]) -> JSON:
    references = {
        path: make_reference(each.key, each.size, each.hint)
        for path, each in stored.items()
    }
    return placed(result, references)
