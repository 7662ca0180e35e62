"""Keys of a task's spec and policy."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dsl.grammar.earlier_forms import (
    CONDITIONS,
    NEVER,
    OLDER_FORMS,
    Retired,
)
from noetl.dsl.grammar.records import (
    ANY,
    DURATION,
    GUARD,
    MAPPING,
    POOL,
    RATE,
    SLOTS,
    TEXT,
    TIMEOUT,
    Field,
    Record,
    Shape,
    integer,
    list_of,
    mapping_of,
    one_of,
)


class DirectiveForm(msgspec.Struct, frozen=True):
    """One directive. ``then`` is the next task; ``prev`` and ``attempt`` are its values
    there."""

    doc: str
    then: str
    prev: str
    attempt: str
    keys: tuple[str, ...] = ()


_RESULT = "this task's result; null after an error"

DIRECTIVES: Mapping[str, DirectiveForm] = {
    "continue": DirectiveForm(
        "Goes on with the next task, after an error as well. After the last one the "
        "pipeline has succeeded.",
        "the next task",
        _RESULT,
        "1",
    ),
    "retry": DirectiveForm(
        "Calls the same task again after a wait. Its attempts used up, it is `fail`, "
        "with the kind of the last error and `details.attempts`.",
        "the same task",
        "unchanged",
        "one more",
        ("attempts", "backoff", "delay"),
    ),
    "jump": DirectiveForm(
        "Goes on with the task that has the label `to`, before or behind this one or "
        "this one itself. It never leaves the step run or the iteration.",
        "the task `to`",
        _RESULT,
        "1",
        ("to",),
    ),
    "break": DirectiveForm(
        "Ends the pipeline with success: the iteration of a loop is done, otherwise "
        "the step. Its result is this task's.",
        "the end",
        "no task follows",
        "no task follows",
    ),
    "fail": DirectiveForm(
        "Ends the pipeline in failure: the iteration of a loop failed, otherwise the "
        "step. Its error is the one it is given by `error`, or the call's; after a "
        "call that succeeded it is `policy.fail`.",
        "the end",
        "no task follows",
        "no task follows",
        ("error",),
    ),
    "skip": DirectiveForm(
        "Leaves the task out. Before the call the rules are walked in order, passing "
        "over those that read `outcome`; if the first match is `skip`, the tool is "
        "not called. Matched after the call, its result is thrown away.",
        "the next task",
        "unchanged",
        "1",
    ),
}

BACKOFFS: Mapping[str, str] = {
    "none": "delay",
    "linear": "delay · n",
    "exponential": "delay · 2^(n-1)",
}
"""The wait before rerun ``n``, counted from 1."""


MAX_ATTEMPTS = 100_000
MAX_DELAY_DAYS = 7

RATE_LIMIT = Record(
    "rate",
    "spec.rate",
    {
        "limit": Field(TEXT, "S-78", "The rate: `5/s`, `100/m`.", missing="S-78"),
        "key": Field(
            TEXT, "S-78", "Calls with the same key share the rate (path, step, label)."
        ),
        "burst": Field(
            integer(1, 1_000), "S-78", "Calls that may follow each other at once (1)."
        ),
    },
    unknown_code="S-78",
)
CALL_SLOTS = Record(
    "slots",
    "spec.slots",
    {
        "limit": Field(
            integer(1, 10_000), "S-78", "The maximum of calls.", missing="S-78"
        ),
        "key": Field(
            TEXT, "S-78", "Calls with the same key share slots (path, step, label)."
        ),
    },
    unknown_code="S-78",
)

TASK_SPEC = Record(
    "task_spec",
    "task.spec",
    {
        "policy": Field(
            Shape(
                ("mapping",),
                record="task_policy",
                words="an object with 'rules:'",
                hint="put the rules under policy: {rules: […]}",
            ),
            "VAL-09",
            "The rules for its outcomes.",
        ),
        "timeout": TIMEOUT,
        "rate": RATE,
        "slots": SLOTS,
        "pool": POOL,
        "idempotent": Field(
            Shape(("boolean",), template=True), "PIPE-10", "Safe to run twice."
        ),
        "on_in_doubt": Field(
            one_of("retry", "fail"), "PIPE-10", "After a worker died in the middle."
        ),
        "retry": Field(ANY, "C-29", "The kind's own retry, inside one attempt."),
        "result": Field(MAPPING, "EXE-06", "Result store of this task."),
    },
    retired={"async": Retired("S-52", "every task is awaited; remove it")},
    unknown="warning",
    unknown_code="S-52",
)
_THEN = Shape(
    ("mapping",),
    record="then",
    words="a directive: {do: …}",
    hint="write then: {do: continue}",
)
TASK_POLICY = Record(
    "task_policy",
    "a task policy",
    {
        "rules": Field(
            list_of(mapping_of("rule")), "VAL-09", "First match wins.", "VAL-09"
        )
    },
    unknown="allow",  # spec.policy fields that nothing defines are hints
)
RULE = Record(
    "rule",
    "a rule",
    {
        "when": Field(GUARD, "POL-02", "The condition."),
        "then": Field(_THEN, "VAL-10", "The directive."),
        "else": Field(mapping_of("else"), "S-18", "When no rule matched."),
    },
    retired={**NEVER, **CONDITIONS},
)
ELSE = Record(
    "else",
    "a fallback",
    {"then": Field(_THEN, "VAL-10", "The directive.", "VAL-10")},
)
THEN = Record(
    "then",
    "a directive",
    {
        "do": Field(
            one_of(*DIRECTIVES), "VAL-10", "What happens.", "VAL-10", choice="VAL-21"
        ),
        "attempts": Field(
            integer(1, MAX_ATTEMPTS),
            "POL-08",
            "Maximum of calls, the first included (3).",
        ),
        "backoff": Field(
            one_of(*BACKOFFS), "POL-08", "The growth of the delay.", choice="VAL-21"
        ),
        "delay": Field(DURATION, "POL-08", "Wait before the next call."),
        "to": Field(TEXT, "VAL-11", "The label to jump to."),
        "error": Field(
            Shape(("mapping", "text"), words="a mapping with 'kind' and 'message'"),
            "DIR-12",
            "The error of `fail`: `kind`, `message`, also `details`.",
        ),
        "set_iter": Field(MAPPING, "POL-10", "Patch of the iteration's state."),
        "set_ctx": Field(MAPPING, "POL-11", "Patch of the execution's state."),
    },
    retired={
        "set": Retired("S-50", "use set_ctx, or set_iter in a loop", OLDER_FORMS),
        "set_vars": Retired(
            "VAL-19", "write with set_ctx (or set_iter in a loop)", dialect=None
        ),
        **NEVER,
        **CONDITIONS,
    },
)
