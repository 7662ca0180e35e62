"""Keys of a test file: shapes, and lines of the reference."""

from __future__ import annotations

from noetl.dsl.grammar.records import (
    ANY,
    BOOLEAN,
    DURATION,
    GUARD,
    MAPPING,
    TEXT,
    Field,
    Record,
    Shape,
    integer,
    list_of,
    mapping_of,
    one_of,
)

CODE = "TEST"
MAX_SCHEDULES = 100_000
STATUSES = ("completed", "failed", "cancelled", "waiting")

_COUNT = integer(1, 1_000_000)
_NUMBERS = Shape(("integer", "list"), words="a whole number, or a list of them")
_SPAN = Shape(("number", "text"), words="a duration: seconds, 500ms, 30s, 5m, 2h, 1d")
_MOMENT = Shape(("text",), words="a time such as 2026-01-01T00:00:00Z")
_TASKS = Shape(("mapping",), words="a mapping of tasks to their answers")
_ERROR = Shape(("text", "mapping"), record="error", words="a kind, or {kind: …}")
_HTTP = Shape(("integer", "mapping"), record="http", words="a status, or {status: …}")


def _field(shape: Shape, doc: str, *, required: bool = False) -> Field:
    return Field(shape, CODE, doc, missing=CODE if required else None)


_SHARED = {
    "workload": _field(MAPPING, "Inputs, laid over those of the playbook."),
    "keychain": _field(
        MAPPING, "Made-up secrets: each entry of the keychain, with the value it has."
    ),
    "tasks": _field(_TASKS, "The answers of each task; see [answers](#answer)."),
    "playbooks": _field(
        MAPPING, "The same for tasks of child playbooks, by their `metadata.path`."
    ),
    "signals": _field(list_of(mapping_of("signal")), "Signals that the test sends."),
    "schedules": _field(
        integer(1, MAX_SCHEDULES),
        "The number of interleavings a case runs under (1). All of them must pass.",
    ),
    "starts_at": _field(
        _MOMENT, "The time when an execution begins (2026-01-01T00:00:00Z)."
    ),
}

FILE = Record(
    "file",
    "a test file",
    {
        "playbook": _field(
            TEXT, "The playbook, relative to this file (`x.yaml` for `x.test.yaml`)."
        ),
        **_SHARED,
        "cases": _field(list_of(mapping_of("case")), "The tests.", required=True),
    },
)
CASE = Record(
    "case",
    "a case",
    {
        "name": _field(TEXT, "A sentence about the expected behaviour.", required=True),
        **_SHARED,
        "expect": _field(
            mapping_of("expect"),
            "The expectations about the end of the run.",
            required=True,
        ),
    },
)
CHILD = Record("child", "a child playbook", {"tasks": _SHARED["tasks"]})

SELECTORS = ("call", "attempt", "visit", "iteration", "when")
OUTCOMES = ("result", "error", "http", "dies", "real", "answers")

_OUTCOME = {
    "result": _field(ANY, "It succeeds with this value; templates are rendered."),
    "error": _field(_ERROR, "It fails."),
    "http": _field(
        _HTTP, "The response of a server: success, or failure from status 400 on."
    ),
    "dies": _field(
        one_of("before_call", "before_report"),
        "The worker is lost: before the tool was called, or after, before the outcome "
        "was recorded. Another one goes on from the log.",
    ),
    "real": _field(
        Shape(("boolean",), choices=(), words="true"),
        "As in a real run: `noop`, `wait` and `playbook` can, and do by default. "
        "`python` can, in a process of its own with at most 10 s for a call.",
    ),
    "helper": _field(
        MAPPING, "Members of the kind's helper object, such as `outcome.pg`."
    ),
    "delay": _field(DURATION, "The virtual time that the call takes (0)."),
}

ANSWER = Record(
    "answer",
    "an answer",
    {
        "call": _field(_NUMBERS, "Only for the n-th call of this task in the run."),
        "attempt": _field(_NUMBERS, "Only for the n-th attempt of a visit."),
        "visit": _field(_NUMBERS, "Only for the n-th visit, by `jump`, of the task."),
        "iteration": _field(
            _NUMBERS, "Only in this iteration: its index, or `[outer, inner]`."
        ),
        "when": _field(
            GUARD,
            "Only if this holds; it reads `inputs`, `iter`, `args`, `ctx`, `workload`, "
            "`call`, `attempt`, `visit`.",
        ),
        **_OUTCOME,
        "answers": _field(
            list_of(mapping_of("outcome")),
            "One after the other, counted in each iteration; the last one stays.",
        ),
    },
)
OUTCOME = Record("outcome", "an outcome", _OUTCOME)
ERROR = Record(
    "error",
    "an error",
    {
        "kind": _field(TEXT, "Its kind, such as `timeout`.", required=True),
        "message": _field(TEXT, "Its message (`scripted`)."),
        "retryable": _field(
            Shape(("boolean",)), "True: another attempt may succeed (false)."
        ),
        "details": _field(MAPPING, "Its details."),
    },
)
HTTP = Record(
    "http",
    "an HTTP answer",
    {
        "status": _field(integer(100, 599), "The status.", required=True),
        "headers": _field(MAPPING, "Response headers, in lower case."),
        "body": _field(ANY, "The result, or `error.details.body` of a failure."),
        "request_id": _field(TEXT, "`outcome.http.request_id`."),
    },
)
SIGNAL = Record(
    "signal",
    "a signal",
    {
        "signal": _field(TEXT, "Its name.", required=True),
        "data": _field(ANY, "The data of the signal (null)."),
        "at": _field(
            _SPAN,
            "When, counted from the start. Without it: as soon as it is waited for and "
            "nothing else can happen.",
        ),
        "refused": _field(BOOLEAN, "True: the execution must refuse it (false)."),
    },
)
EXPECT = Record(
    "expect",
    "expectations",
    {
        "status": _field(
            one_of(*STATUSES),
            "Its status (`completed`, unless `error` is expected); `waiting`: it "
            "cannot go on.",
        ),
        "error": _field(
            Shape(
                ("text", "mapping", "null"),
                record="expected_error",
                words="a kind, {kind: …} or null",
            ),
            "The error of the execution, or that there is none.",
        ),
        "result": _field(ANY, "The result."),
        "ctx": _field(ANY, "The whole `ctx` at the end."),
        "path": _field(
            Shape(("list", "mapping"), words="a list of steps, or a matcher"),
            "The steps that ran, in the order of their admission.",
        ),
        "calls": _field(MAPPING, "Calls of a task: their number, or more."),
        "iterations": _field(
            MAPPING, "Iterations of a step: `{total, done, failed, skipped}`."
        ),
        "events": _field(
            list_of(Shape(("text", "mapping"), record="expected_event")),
            "Events of the log, in this order; others may come between them.",
        ),
        "duration": _field(
            Shape(("number", "text", "mapping"), words=f"{_SPAN}, or a matcher"),
            "The duration, in virtual time.",
        ),
        "never": _field(list_of(TEXT), "Steps and tasks that do not run at all."),
    },
)
EXPECTED_ERROR = Record(
    "expected_error",
    "an expected error",
    {
        "kind": _field(ANY, "Its kind."),
        "message": _field(ANY, "A part of its message, or a matcher."),
        "step": _field(ANY, "The step that failed."),
        "task": _field(ANY, "The task that failed."),
        "retryable": _field(ANY, "True: another attempt may succeed."),
        "details": _field(ANY, "Its details."),
    },
)
CALLS = Record(
    "calls",
    "expected calls",
    {
        "count": _field(
            Shape(("integer", "mapping"), words="a number, or a matcher"), "How many."
        ),
        "inputs": _field(
            Shape(("list", "mapping"), words="a list, or a matcher"),
            "The inputs of all calls, in their order.",
        ),
        "nth": _field(list_of(mapping_of("nth_call")), "The inputs of single calls."),
    },
)
NTH_CALL = Record(
    "nth_call",
    "an expected call",
    {
        "call": _field(_COUNT, "The number of the call, from 1.", required=True),
        "inputs": _field(ANY, "Its inputs.", required=True),
    },
)
ITERATIONS = Record(
    "iterations",
    "expected iterations",
    {
        "total": _field(ANY, "Items of the loop; of all runs of the step together."),
        "done": _field(ANY, "Iterations that succeeded."),
        "failed": _field(ANY, "Iterations that failed."),
        "skipped": _field(ANY, "Iterations that never began."),
    },
)
EXPECTED_EVENT = Record(
    "expected_event",
    "an expected event",
    {
        "name": _field(TEXT, "Its name.", required=True),
        "step": _field(ANY, "Its step."),
        "task": _field(ANY, "Its task's label."),
        "attempt": _field(ANY, "Its attempt."),
        "status": _field(ANY, "Its status."),
        "payload": _field(ANY, "Its payload."),
    },
)

RECORDS = (
    FILE,
    CASE,
    ANSWER,
    OUTCOME,
    ERROR,
    HTTP,
    CHILD,
    SIGNAL,
    EXPECT,
    EXPECTED_ERROR,
    CALLS,
    NTH_CALL,
    ITERATIONS,
    EXPECTED_EVENT,
)
