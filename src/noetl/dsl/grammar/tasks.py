"""Keys of a task's spec and policy."""

from __future__ import annotations

from noetl.dsl.grammar.directives import BACKOFFS, DIRECTIVES
from noetl.dsl.grammar.knobs import POOL, TIMEOUT
from noetl.dsl.grammar.retired import CONDITIONS, NEVER
from noetl.dsl.grammar.shape import (
    ANY,
    DURATION,
    GUARD,
    MAPPING,
    TEXT,
    Field,
    Record,
    Retired,
    Shape,
    integer,
    list_of,
    mapping_of,
    one_of,
)

MAX_ATTEMPTS = 100_000
MAX_DELAY_DAYS = 7

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
            "What an outcome causes.",
        ),
        "timeout": TIMEOUT,
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
            integer(1, MAX_ATTEMPTS), "POL-08", "Most calls, the first included (3)."
        ),
        "backoff": Field(
            one_of(*BACKOFFS), "POL-08", "How the delay grows.", choice="VAL-21"
        ),
        "delay": Field(DURATION, "POL-08", "Wait before the next call."),
        "to": Field(TEXT, "VAL-11", "The label to jump to."),
        "error": Field(
            Shape(("mapping", "text"), words="a mapping with 'kind' and 'message'"),
            "DIR-12",
            "What `fail` says: `kind`, `message`, also `details`.",
        ),
        "set_iter": Field(MAPPING, "POL-10", "Patch of the iteration's state."),
        "set_ctx": Field(MAPPING, "POL-11", "Patch of the execution's state."),
    },
    retired={
        "set_vars": Retired(
            "VAL-19", "write with set_ctx (or set_iter in a loop)", dialect=None
        ),
        **NEVER,
        **CONDITIONS,
    },
)
