"""Parts that payloads share."""

# Without `from __future__ import annotations`: evaluating these types at import is
# cheaper than compiling each of them from text.

from typing import Literal, NotRequired, TypeAlias, TypedDict

from noetl.types import JSON

Values: TypeAlias = dict[str, JSON]
"""Names with values that playbooks and tools have made."""
Problem: TypeAlias = dict[str, JSON]
"""An error: always ``kind`` and ``message``, mostly ``retryable`` and ``details``, and
its place: ``step``, ``task``, ``iteration``."""
About: TypeAlias = dict[str, JSON]
"""A playbook: ``name``, ``path``, ``version``, ``sha256``, ``source``, ``folder``."""
Timer: TypeAlias = dict[str, JSON]
"""A timer of a choice: its ``id``, and ``at``, the time at which it is due."""
EndStatus: TypeAlias = Literal["completed", "failed", "cancelled"]


class Payload(TypedDict):
    """Members that any payload may have.

    A payload is at most 64 KiB: its largest values are stored elsewhere and replaced by
    references. The types describe the values before that.
    """

    spilled: NotRequired[list[str]]
    """Dotted paths of the values that were replaced by references."""


class Judged(Payload):
    """Members of decisions that evaluate conditions."""

    undefined: NotRequired[list[str]]
    """Names that a condition read and nothing gave, as written: at most 20."""
    nearest: NotRequired[dict[str, str]]
    """For names in `undefined`: the existing name that is most like it."""


class NewToken(TypedDict):
    """A token on its way to a step."""

    token_id: str
    step: str
    args: Values


class Admission(TypedDict):
    """The answer of a gate, and the position of the rule that gave it."""

    allow: bool
    rule: int | None
    error: NotRequired[Problem]


class Directive(TypedDict):
    """The directive for an outcome, and the position of the rule that gave it."""

    do: Literal["continue", "retry", "jump", "break", "fail", "skip"]
    rule: int | None
    to: NotRequired[str]
    attempts: NotRequired[int | None]
    delay: NotRequired[float]
    next: NotRequired[str | None]


class ArcAnswer(TypedDict):
    """The answer of one arc: fired, or the reason why not."""

    step: str
    fired: bool
    why: NotRequired[str]
    error: NotRequired[Problem]


class IterationError(TypedDict):
    """The error of an iteration, with the position of its item."""

    index: int
    kind: str
    message: str


class KeptIterations(TypedDict):
    """Iterations that an earlier run of a loop has done: how many, the first and last
    position of each range, and their results, or a reference to those of that run."""

    step_run_id: str
    done: int
    ranges: list[list[int]]
    results: JSON


class Refusal(TypedDict):
    """A key of ``ctx`` that was not written, and the iteration that wrote it first."""

    key: str
    by: str


class Position(TypedDict):
    """A position in the log of an execution."""

    execution_id: str
    seq: int


class PutBack(NewToken):
    """A token that is put back, because the run or the gate ``failed``."""

    failed: str
    event: Values | None


class StepShape(TypedDict):
    """The properties of a step that its open runs depend on."""

    has_arcs: bool
    first: str | None
