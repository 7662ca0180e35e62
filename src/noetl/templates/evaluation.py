"""One evaluation of a template: its names, and what is left of its budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from noetl.errors import TemplateError
from noetl.templates import faults, limits
from noetl.templates.undefined import StrictUndefined, Undefined
from noetl.types import JSON


class Stored(Protocol):
    """Values that are stored elsewhere, where a scope has such (S-48)."""

    def load(self, value: JSON) -> JSON:
        """The value for a reference to it."""
        ...

    def whole(self, value: JSON) -> JSON:
        """The value without any reference in it."""
        ...


class Budget:
    """Steps that one or several evaluations may take; evaluating lowers ``steps``.

    ``output`` bounds the text of each single evaluation.
    """

    __slots__ = ("output", "steps")

    def __init__(self, steps: int = limits.STEPS, output: int = limits.SIZE) -> None:
        self.steps = steps
        self.output = output


class Decision(Budget):
    """The budget that all templates of one decision share. ``count`` is how many of
    them were evaluated."""

    __slots__ = ("count",)

    def __init__(self, steps: int = limits.DECISION) -> None:
        self.steps = steps
        self.output = limits.SIZE
        self.count = 0

    @property
    def spent(self) -> int:
        return limits.DECISION - self.steps

    def exceeded(self) -> TemplateError:
        return faults.too_much(
            f"the {self.count:,} templates of this decision take more than "
            f"{limits.DECISION:,} steps together; compare fewer values in them, or "
            "do the work in a python task"
        )


class Evaluation:
    """What the closures of a template share while they run."""

    __slots__ = (
        "formats",
        "locals",
        "output",
        "parts",
        "scope",
        "steps",
        "stored",
        "strict",
        "undefined",
    )

    def __init__(
        self, scope: Mapping[str, JSON], steps: int, output: int, strict: bool
    ) -> None:
        self.scope = scope
        self.stored: Stored | None = getattr(scope, "stored", None)
        self.locals: dict[str, JSON] = {}  # names that set and for have bound
        self.steps = steps
        self.output = output
        self.strict = strict
        self.undefined = StrictUndefined if strict else Undefined
        self.parts: list[str] = []
        self.formats: Sequence[str] = ()  # of dates, the last ones

    def charge(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise self.exhausted()

    def exhausted(self) -> TemplateError:
        return faults.too_much(
            f"the step budget of {limits.STEPS:,} is exceeded; loop over less, or do "
            "the work in a python task"
        )

    def made(self, text: str) -> str:
        """Pay for a text that was made; ``size`` must have been checked before
        where it can grow without bound."""
        self.size(len(text))
        return text

    def size(self, length: int) -> None:
        """Refuse a text or list of more than the limit, before it is made."""
        if length > limits.SIZE:
            raise faults.too_much(
                f"a text or list of {length:,} exceeds {limits.SIZE:,}, the most that "
                "a template may make"
            )
        self.steps -= 1 + length // limits.CHARS_PER_STEP
        if self.steps < 0:
            raise self.exhausted()

    def write(self, text: str) -> None:
        """Append to the output, which is capped while it grows."""
        self.output -= len(text)
        if self.output < 0:
            raise faults.too_much(
                f"the text exceeds {limits.SIZE:,} characters, the most that a "
                "template may make"
            )
        self.parts.append(text)
