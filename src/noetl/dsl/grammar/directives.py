"""The directives of task rules: what each of them does, and the keys it alone reads."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class DirectiveForm(msgspec.Struct, frozen=True):
    """``then`` says where the pipeline goes, ``prev`` and ``attempt`` what it finds."""

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
        "over those that read `outcome`; if the first match says `skip`, the tool is "
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
