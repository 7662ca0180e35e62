"""Events of steps and loops: step runs and iterations begin and end, tokens move."""

from typing import Literal, NotRequired, TypedDict

from noetl.engine.events.envelope import BOTH, EventType
from noetl.engine.events.parts import (
    Admission,
    ArcAnswer,
    IterationError,
    Judged,
    KeptIterations,
    NewToken,
    Payload,
    Problem,
    Values,
)
from noetl.types import JSON


class Gated(Payload):
    """Tokens at the gate of their step."""

    tokens: list[str]
    """Ids of the tokens that were taken."""
    args: Values
    """The `args` of the gate, and of the run if it is admitted."""
    admit: Admission
    """`{allow, rule}`: the answer, and the position of the rule that gave it; `error`,
    if the gate could not be evaluated."""
    late: NotRequired[list[str]]
    """Sources of a join whose tokens are discarded on arrival."""


class StepSkipped(Gated, Judged):
    """A token was denied by the gate of its step."""


class StepScheduled(Gated):
    """A token was admitted, and a run of the step exists."""

    has_arcs: bool
    """True if a router is evaluated at the end of the run."""
    first: NotRequired[str]
    """Label of the first task. Absent for loops and routing steps."""
    keep: NotRequired[list[str]]
    """Labels of tasks whose outcomes templates read by `_outcomes`."""
    deadline: NotRequired[str]
    """The deadline of the run."""


_Sent = TypedDict("_Sent", {"from": str})
"""The step that sent it."""


class TokenJoined(Payload, _Sent):
    """A token waits at a join, or is discarded there."""

    token_id: str
    """The token."""
    discarded: NotRequired[bool]
    """True: the round has fired without the token."""


class StepStarted(Payload):
    """A worker took the run; the server begins runs that need no worker."""

    tokens: list[str]
    """Ids of the tokens that the run took."""


class StepDone(Payload):
    """The pipeline or the loop succeeded."""

    result: JSON
    """Result of the last task; for a loop, its results."""


class StepFailed(Payload):
    """The pipeline or the loop failed."""

    error: Problem
    """`{kind, message, retryable, details, task, iteration}`."""
    errors: NotRequired[list[IterationError]]
    """Of a loop that failed: as in `loop.done`."""
    error_kinds: NotRequired[dict[str, int]]
    """Of a loop that failed: as in `loop.done`."""


class NextEvaluated(Judged):
    """The arcs were evaluated, and tokens were sent."""

    on: str
    """The name of the boundary event."""
    mode: Literal["exclusive", "inclusive"]
    """exclusive or inclusive."""
    arcs: list[ArcAnswer]
    """`{step, fired}` of each arc, `why` it did not fire, and its `error`."""
    fired: list[NewToken]
    """`{token_id, step, args}` of each token that was sent."""
    handled: bool
    """True if an arc with a guard handled a failure."""
    error: NotRequired[Problem]
    """Error of an arc whose template failed, if no arc fired."""
    unfired: NotRequired[list[str]]
    """No arc fired: the targets of the arcs that do not ask for another end of the
    step, if no token had reached one of them."""


STEP_SCHEDULED = EventType(
    "step.scheduled", StepScheduled, "step", "server", "in_progress"
)
STEP_SKIPPED = EventType("step.skipped", StepSkipped, "step", "server", "skipped")
TOKEN_JOINED = EventType("token.joined", TokenJoined, "step", "server", "in_progress")
STEP_STARTED = EventType(
    "step.started", StepStarted, "step", "worker", "in_progress", BOTH
)
STEP_DONE = EventType("step.done", StepDone, "step", "worker", "success", BOTH)
STEP_FAILED = EventType("step.failed", StepFailed, "step", "worker", "error", BOTH)
NEXT_EVALUATED = EventType("next.evaluated", NextEvaluated, "next", "server", "success")


class LoopStarted(Payload):
    """The collection is fixed."""

    total: int
    """Number of iterations."""
    items: JSON
    """The list, or `{start, stop, step}` of a range."""
    mode: Literal["sequential", "parallel"]
    """sequential or parallel."""
    iterator: str
    """The iterator's name."""
    max_in_flight: NotRequired[int]
    """The most iterations that may be open at a time; 1 if they are sequential. Logs of
    earlier versions do not have it."""
    kept: NotRequired[KeptIterations]
    """`{step_run_id, done, ranges, results}`: the iterations that an earlier run has
    done, in a retry. They do not run again, and their patches of `ctx` apply here."""


class IterationStarted(Payload):
    """An iteration was scheduled."""

    item: JSON
    """The element."""
    first: NotRequired[str]
    """Label of the first task. Absent if the iteration has an inner loop."""
    keep: NotRequired[list[str]]
    """As in `step.scheduled`."""


class IterationDone(Payload):
    """An iteration succeeded."""

    result: JSON
    """Result of the last task."""
    size: int
    """Bytes of the result as JSON."""


class IterationFailed(Payload):
    """An iteration failed."""

    error: Problem
    """`{kind, message, retryable, details, task, iteration}`."""


class LoopDone(Payload):
    """Every iteration has ended."""

    total: int
    """Number of iterations: the sum of the next three."""
    done: int
    """Number of iterations that succeeded."""
    failed: int
    """Number of iterations that failed."""
    skipped: int
    """Number of iterations that did not begin."""
    errors: NotRequired[list[IterationError]]
    """`{index, kind, message}` of the first 100 iterations that failed, if some did."""
    error_kinds: NotRequired[dict[str, int]]
    """The number of failed iterations by the kind of their error."""
    results: JSON
    """Results in the order of the items, null for those that failed; if they are too
    large, a reference to these events of the log."""


LOOP_STARTED = EventType("loop.started", LoopStarted, "loop", "server", "in_progress")
ITERATION_STARTED = EventType(
    "loop.iteration.started", IterationStarted, "loop", "server", "in_progress"
)
ITERATION_DONE = EventType(
    "loop.iteration.done", IterationDone, "loop", "worker", "success", BOTH
)
ITERATION_FAILED = EventType(
    "loop.iteration.failed", IterationFailed, "loop", "worker", "error", BOTH
)
LOOP_DONE = EventType("loop.done", LoopDone, "loop", "server", "success")
