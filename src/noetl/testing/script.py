"""Scripted tools: the reply to a call, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from noetl.dsl.node import Location
from noetl.dsl.times import parse_duration
from noetl.engine.runs import find_progress, path_of
from noetl.engine.simulate import ScriptedOutcome, Simulation
from noetl.engine.tasks.outcome import Failure, Outcome
from noetl.engine.tasks.pipeline import Call
from noetl.errors import NoetlError, TemplateError
from noetl.templates import Value
from noetl.testing.check_names import ON_REQUEST, REAL, TaskName
from noetl.testing.model import Reply, Scripted
from noetl.types import JSON

_RETRYABLE = frozenset({408, 425, 429})


class ScriptError(NoetlError):
    """Missing or invalid answer, with which the test cannot go on."""

    def __init__(
        self, message: str, hint: str | None = None, at: Location | None = None
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.at = at


CallTool = Callable[[Call], Outcome]
"""Makes the call of a task for real, within the bounds of a test."""


def refuse_real(call: Call) -> Outcome:
    """Refuse a real call where no tools are given. Raises ``ScriptError``."""
    message = f"'{call.task.label}' ({call.task.kind}) cannot be called for real here"
    raise ScriptError(message, "use noetl test, or write an answer")


class Made(msgspec.Struct, frozen=True):
    """Call that was made, with its location."""

    step: str
    label: str
    inputs: dict[str, JSON]

    @property
    def task(self) -> TaskName:
        return self.step, self.label


class Tally(msgspec.Struct):
    """Counters of one run; executions of the same playbook share them."""

    made: list[Made] = msgspec.field(default_factory=list)
    begun: dict[TaskName, int] = msgspec.field(default_factory=dict)
    answered: dict[JSON, int] = msgspec.field(default_factory=dict)
    lost: set[JSON] = msgspec.field(default_factory=set)


class Asked(msgspec.Struct):
    """Call, with all values that a reply may match."""

    call: Call
    step: str
    path: tuple[int, ...]
    visit: int
    number: int
    scope: dict[str, JSON]


class Script:
    """Answers the calls of one execution.

    ``origin`` are the iterations that it was called from, so that a child counts its
    answers by the iteration that called it. ``child`` is the path of a child playbook.
    """

    def __init__(
        self,
        replies: Mapping[TaskName, tuple[Reply, ...]],
        tally: Tally,
        origin: tuple[int, ...] = (),
        child: str | None = None,
        call_tool: CallTool = refuse_real,
    ) -> None:
        self.simulation: Simulation | None = None  # set with the first call
        self._replies = replies
        self._tally = tally
        self._origin = origin
        self._child = child
        self._call_tool = call_tool

    def answer(self, call: Call) -> ScriptedOutcome | None:
        """Return the outcome of the call. Raises ``ScriptError``."""
        asked = self._ask(call)
        task = (asked.step, call.task.label)
        for reply in self._replies.get(task, ()):
            if self._fits(reply, asked):
                found = self._next(reply, asked)
                if found is not None:
                    return self._play(found, asked)
        if call.task.kind in REAL:
            return self._be_real(asked)
        raise self._unanswered(asked)

    def _unanswered(self, asked: Asked) -> ScriptError:
        task = asked.call.task
        name = f"{asked.step}.{task.label}"
        whose, where = "", f"tasks: {{{name}: {{result: …}}}}"
        if self._child is not None:
            whose = f" of playbook '{self._child}'"
            where = f"playbooks: {{{self._child}: {{{where}}}}}"
        message = f"{name} ({task.kind}){whose} was called, but it has no answer"
        return ScriptError(message, f"add one: {where}")

    def _ask(self, call: Call) -> Asked:
        assert self.simulation is not None
        state = self.simulation.state
        command_id, _, rest = call.task_run_id.partition(":")
        path = tuple(path_of(command_id))
        run = state.runs[command_id.split("/")[0]]
        task = (run.step, call.task.label)
        number = self._tally.begun[task] = self._tally.begun.get(task, 0) + 1
        visit = int(rest.rpartition(".")[2])
        scope: dict[str, JSON] = {
            "inputs": call.inputs,
            "args": run.args,
            "ctx": state.ctx,
            "workload": state.workload,
            "execution_id": state.execution_id,
            "call": number,
            "attempt": call.attempt,
            "visit": visit,
        }
        iteration = find_progress(run, path).iter
        if iteration is not None:
            scope["iter"] = iteration
        return Asked(call, run.step, path, visit, number, scope)

    def _fits(self, reply: Reply, asked: Asked) -> bool:
        if reply.call is not None and asked.number not in reply.call:
            return False
        if reply.attempt is not None and asked.call.attempt not in reply.attempt:
            return False
        if reply.visit is not None and asked.visit not in reply.visit:
            return False
        if reply.iteration is not None and asked.path != reply.iteration:
            return False
        if reply.when is None:
            return True
        try:
            return reply.when.holds(asked.scope)
        except TemplateError as error:
            raise ScriptError(f"when: {error.message}", at=reply.at) from None

    def _next(self, reply: Reply, asked: Asked) -> Scripted | None:
        """Return the next outcome; each death happens once to an attempt."""
        if len(reply.outcomes) == 1:
            found = reply.outcomes[0]
        else:
            key = (id(reply), asked.step, self._origin, asked.path)
            turn = self._tally.answered.get(key, 0)
            self._tally.answered[key] = turn + 1
            found = reply.outcomes[min(turn, len(reply.outcomes) - 1)]
        if found.how != "dies":
            return found
        death = (id(found), asked.call.action_id, asked.call.attempt)
        if death in self._tally.lost:
            return None
        self._tally.lost.add(death)
        return found

    def _play(self, found: Scripted, asked: Asked) -> ScriptedOutcome | None:
        try:
            seconds = _seconds(found.delay, asked.scope)
            if found.how == "dies":
                if found.body.render({}) == "before_report":
                    self._note(asked)
                return ScriptedOutcome(None, seconds)
            if found.how == "real":
                return self._be_real(asked)
            body = found.body.render(asked.scope)
            helper = dict(found.helper.render(asked.scope))
        except TemplateError as error:
            raise ScriptError(f"{found.how}: {error.message}", at=found.at) from None
        self._note(asked)
        try:
            outcome = _outcome(found.how, body, helper, asked.call)
        except msgspec.ValidationError as error:
            raise ScriptError(f"{found.how}: {error}", at=found.at) from None
        return _timed(outcome, seconds, asked.call)

    def _be_real(self, asked: Asked) -> ScriptedOutcome | None:
        self._note(asked)
        if asked.call.task.kind == "noop":
            inputs = asked.call.inputs
            note = {key: inputs[key] for key in ("note",) if key in inputs}
            return ScriptedOutcome(Outcome.ok(inputs.get("result"), **note))
        if asked.call.task.kind in ON_REQUEST:
            return ScriptedOutcome(self._call_tool(asked.call))
        return None

    def _note(self, asked: Asked) -> None:
        call = asked.call
        self._tally.made.append(Made(asked.step, call.task.label, call.inputs))


def _seconds(delay: float | Value, scope: dict[str, JSON]) -> float:
    if not isinstance(delay, Value):
        return delay
    try:
        return parse_duration(delay.render(scope))
    except ValueError as error:
        raise TemplateError("template.error", f"delay: {error}") from None


def _outcome(how: str, body: JSON, helper: dict[str, JSON], call: Call) -> Outcome:
    if how == "http":
        return _answer_http(body, call)
    if how == "error":
        failure = msgspec.convert({"message": "scripted", **body}, Failure)
        return Outcome("error", None, failure, helper)
    if call.task.kind == "http":
        helper = {"status": 200, "headers": {}, **helper}
    return Outcome.ok(body, **helper)


def _answer_http(body: dict[str, JSON], call: Call) -> Outcome:
    """Return the outcome that the http tool makes of an answer (S-47)."""
    status, content = body["status"], body.get("body")
    headers = {
        str(name).lower(): str(value)
        for name, value in (body.get("headers") or {}).items()
    }
    request_id = body.get("request_id", headers.get("x-request-id"))
    helper = {"status": status, "headers": headers, "request_id": request_id}
    accepted = call.spec.get("ok_status")
    if accepted is None:
        good = status < 400
    else:
        good = status in (accepted if isinstance(accepted, list) else [accepted])
    if good:
        return Outcome.ok(content, **helper)
    kind = "http.server" if status >= 500 else "http.client"
    return Outcome.failed(
        kind if status >= 400 else "http.status",
        f"{status} from the scripted server",
        retryable=status in _RETRYABLE or status >= 500,
        details={"body": content},
        **helper,
    )


def _timed(outcome: Outcome, seconds: float, call: Call) -> ScriptedOutcome:
    """End a call at its timeout if it takes longer (S-35)."""
    try:
        limit = _timeout(call.spec.get("timeout"))
    except ValueError as error:
        return ScriptedOutcome(
            Outcome.failed("tool.contract", f"spec.timeout: {error}")
        )
    if limit is None or seconds <= limit:
        return ScriptedOutcome(outcome, seconds)
    message = f"no answer after {limit:g} s"
    return ScriptedOutcome(Outcome.failed("timeout", message, retryable=True), limit)


def _timeout(given: JSON) -> float | None:
    """Return the timeout of the whole call, or the shortest of its phases."""
    if isinstance(given, Mapping):
        phases = [given.get("read"), given.get("total")]
    else:
        phases = [given]
    return min(map(parse_duration, filter(None, phases)), default=None)
