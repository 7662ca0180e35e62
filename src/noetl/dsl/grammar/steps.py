"""Keys of a step, its gate, its loop and its router."""

from __future__ import annotations

from noetl.dsl.grammar.earlier_forms import (
    CONDITIONS,
    NEVER,
    OLDER_FORMS,
    Retired,
)
from noetl.dsl.grammar.records import (
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

MAX_IN_FLIGHT = 10_000

PIPELINE = Shape(
    ("list", "mapping"),
    words="a list of tasks, or one task",
    hint="write tool: {kind: …}, or a list of labelled tasks",
    record="pipeline",
)
# Any type is accepted here: the parser of routers reports the older shapes.
ROUTER_SHAPE = Shape(record="router")

_SET = Retired("S-50", "write in a task policy rule: set_ctx: …", OLDER_FORMS)
_STORED = Retired("S-50", "large results are stored by themselves", OLDER_FORMS)
_CASE_SPEC = Retired("VAL-17", "use 'next.arcs' with guards, and task policy rules")

STEP = Record(
    "step",
    "a step",
    {
        "step": Field(TEXT, "STEP-01", "The step's name.", missing="STEP-01"),
        "desc": Field(TEXT, "STEP-02", "The purpose of the step."),
        "spec": Field(mapping_of("step_spec"), "STEP-02", "Knobs and policies."),
        "loop": Field(
            mapping_of("loop"), "STEP-02", "Run the pipeline once per element."
        ),
        "tool": Field(PIPELINE, "STEP-02", "The pipeline: tasks, in order."),
        "next": Field(ROUTER_SHAPE, "VAL-13", "The targets of its tokens."),
    },
    retired={
        "when": Retired(
            "VAL-08",
            "gate the step with spec.policy.admit.rules",
            message="does not belong on a step",
        ),
        "case": Retired(
            "VAL-17", "branch with 'next.arcs' guards, react with task policy rules"
        ),
        "retry": Retired(
            "VAL-17", "use a task policy rule: then: {do: retry, attempts: 3}"
        ),
        "poll": Retired(
            "VAL-17",
            "use a task policy rule: then: {do: retry, attempts: 60, delay: 5}",
        ),
        "sink": Retired("VAL-17", "make it a task at the end of 'tool'"),
        "args": Retired("S-50", "give them to the task, or on the arcs that lead here"),
        "vars": Retired("VAL-19", "write with set_ctx (or set_iter in a loop)"),
        "set_vars": Retired("VAL-19", "write with set_ctx (or set_iter in a loop)"),
        "set": _SET,
        "set_ctx": _SET,
        "input": Retired("S-50", "give them to the task: args: …", OLDER_FORMS),
        "with": Retired("S-50", "give them to the task: args: …", OLDER_FORMS),
        "result": Retired(
            "S-50", "large results are stored by themselves", OLDER_FORMS
        ),
        "output": Retired(
            "S-50", "large results are stored by themselves", OLDER_FORMS
        ),
        "assert": Retired("S-50", "use a task policy rule: do: fail", OLDER_FORMS),
        **NEVER,
        **CONDITIONS,
    },
    knobs=frozenset(
        {"join", "deadline", "timers", "pool", "timeout", "rate", "slots", "policy"}
    ),
)

STEP_SPEC = Record(
    "step_spec",
    "step.spec",
    {
        "policy": Field(mapping_of("step_policy"), "ADM-01", "Admission and failure."),
        "join": Field(mapping_of("join"), "S-04", "Wait for tokens of several steps."),
        "deadline": Field(
            DURATION, "C-30", "The maximum duration of one run of the step."
        ),
        "timers": Field(MAPPING, "S-55", "Timers of a waiting step: `{id: duration}`."),
        "pool": POOL,
        "timeout": TIMEOUT,
        "rate": RATE,
        "slots": SLOTS,
        "result": Field(MAPPING, "EXE-06", "Result store of this step's tasks."),
    },
    retired={
        "next_mode": Retired("VAL-18", "use next.spec.mode"),
        "case_mode": _CASE_SPEC,
        "eval_mode": _CASE_SPEC,
        "branch_order": _CASE_SPEC,
        "next_policy": _CASE_SPEC,
        "on_error": Retired("S-52", "use task policy rules, or policy.failure"),
        "set_vars": Retired("VAL-19", "write with set_ctx (or set_iter in a loop)"),
        **NEVER,
    },
    unknown="warning",
    unknown_code="S-52",
)

STEP_POLICY = Record(
    "step_policy",
    "step.spec.policy",
    {
        "admit": Field(
            mapping_of("admit"), "ADM-01", "The rules by which tokens enter."
        ),
        "failure": Field(
            one_of("fail_fast", "best_effort"),
            "LOOP-21",
            "The effect of failed iterations on a loop step.",
        ),
    },
    unknown="allow",  # spec.policy fields that nothing defines are hints
)

JOIN = Record(
    "join",
    "a join",
    {
        "mode": Field(
            Shape(("text", "integer"), words="all, any or a number"),
            "S-04",
            "`all` (default), `any`, or how many tokens fire it.",
        ),
        "from": Field(
            list_of(TEXT), "S-04", "The steps it waits for (all with an arc to it)."
        ),
    },
)

ADMIT = Record(
    "admit",
    "the admission gate",
    {
        "rules": Field(
            list_of(mapping_of("admit_rule")), "ADM-01", "First match wins.", "ADM-01"
        )
    },
    unknown="allow",  # spec.policy fields that nothing defines are hints
)
ADMIT_RULE = Record(
    "admit_rule",
    "an admission rule",
    {
        "when": Field(GUARD, "ADM-02", "The condition."),
        "then": Field(mapping_of("admit_then"), "ADM-02", "`{allow: true}` or false."),
        "else": Field(mapping_of("admit_else"), "S-18", "When no rule matched."),
    },
    retired={**NEVER, **CONDITIONS},
)
ADMIT_THEN = Record(
    "admit_then",
    "an admission decision",
    {
        "allow": Field(
            Shape(("boolean",)), "ADM-02", "True lets the token enter.", "ADM-02"
        )
    },
)
ADMIT_ELSE = Record(
    "admit_else",
    "an admission fallback",
    {"then": Field(mapping_of("admit_then"), "ADM-03", "The decision.", "ADM-03")},
)

LOOP = Record(
    "loop",
    "a loop",
    {
        "in": Field(
            Shape(("text", "list"), words='a template such as "{{ … }}", or a list'),
            "LOOP-02",
            "The collection.",
        ),
        "iterator": Field(TEXT, "LOOP-01", "The element's name: `iter.<name>`."),
        "spec": Field(mapping_of("loop_spec"), "LOOP-04", "Mode, bounds, placement."),
        "loop": Field(mapping_of("loop"), "C-25", "A loop inside each iteration."),
    },
    retired={
        "collection": Retired("VAL-03", "rename it to 'in'"),
        "element": Retired("VAL-03", "rename it to 'iterator'"),
        **NEVER,
        **CONDITIONS,
    },
    knobs=frozenset(
        {"mode", "max_in_flight", "policy", "pool", "timeout", "rate", "slots"}
    ),
)
LOOP_SPEC = Record(
    "loop_spec",
    "loop.spec",
    {
        "mode": Field(
            one_of("sequential", "parallel"),
            "LOOP-04",
            "One after the other (default), or at once.",
            choice="VAL-21",
        ),
        "max_in_flight": Field(
            integer(1, MAX_IN_FLIGHT), "S-27", "Maximum of iterations at once (10)."
        ),
        "policy": Field(mapping_of("loop_policy"), "LOOP-06", "Placement."),
        "pool": POOL,
        "timeout": TIMEOUT,
        "rate": RATE,
        "slots": SLOTS,
    },
    retired={
        "batch_size": Retired("S-52", "use max_in_flight"),
        "on_error": Retired("S-52", "use step.spec.policy.failure: best_effort"),
    },
    unknown="warning",
    unknown_code="S-52",
)
LOOP_POLICY = Record(
    "loop_policy",
    "loop.spec.policy",
    {
        "exec": Field(
            one_of("local", "distributed"),
            "LOOP-06",
            "Keep the iterations on one worker, or (default) let any worker take them.",
            choice="VAL-21",
        ),
        "set_ctx": Field(
            one_of("write_once"),
            "LOOP-14",
            "Permits parallel iterations to write ctx, once per key.",
        ),
    },
    unknown="allow",
)

ROUTER = Record(
    "router",
    "the router",
    {
        "spec": Field(mapping_of("next_spec"), "NEXT-01", "The fan-out mode."),
        "arcs": Field(
            list_of(mapping_of("arc")), "VAL-13", "The outgoing arcs.", "VAL-13"
        ),
    },
    retired={
        "to": Retired("VAL-13", "list the targets under 'arcs': - step: name"),
        "priority": Retired("S-50", "arcs are tried in their order"),
        "policy": Retired(
            "S-50",
            "it is a knob: move it under spec: {policy: …}",
            message="does not belong on the router itself",
        ),
        **NEVER,
        **CONDITIONS,
    },
    knobs=frozenset({"mode"}),
)
NEXT_SPEC = Record(
    "next_spec",
    "next.spec",
    {
        "mode": Field(
            one_of("exclusive", "inclusive"),
            "NEXT-02",
            "First match only (default), or every match.",
            choice="VAL-21",
        ),
        "policy": Field(MAPPING, "NEXT-03", "Reserved."),
    },
    retired={"delay": Retired("S-52", "wait in the target step: kind: wait")},
    unknown="warning",
    unknown_code="S-52",
)
ARC = Record(
    "arc",
    "an arc",
    {
        "step": Field(TEXT, "NEXT-04", "The target.", "NEXT-04"),
        "when": Field(GUARD, "NEXT-04", "The guard (true)."),
        "args": Field(MAPPING, "NEXT-04", "The arguments of the token."),
        "spec": Field(MAPPING, "NEXT-03", "Reserved."),
    },
    retired={
        "with": Retired("S-50", "rename it to 'args'"),
        "input": Retired("S-50", "rename it to 'args'", OLDER_FORMS),
        "set": Retired(
            "S-50", "send them by 'args', and set_ctx in the target", OLDER_FORMS
        ),
        **NEVER,
        **CONDITIONS,
    },
)
