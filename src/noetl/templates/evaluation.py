"""One evaluation of a template: its names and the rest of its budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from noetl.errors import TemplateError
from noetl.templates import errors, limits
from noetl.templates.undefined import StrictUndefined, Undefined
from noetl.types import JSON


class Stored(Protocol):
    """Loader of values that are stored outside the scope (S-48)."""

    def load(self, value: JSON) -> JSON:
        """Return the value for a reference to it."""
        ...

    def whole(self, value: JSON) -> JSON:
        """Return the value with every reference replaced by its value."""
        ...


class Budget(msgspec.Struct):
    """Steps that one or several evaluations may take; evaluation lowers ``steps``.

    ``output`` bounds the text of each single evaluation.
    """

    steps: int = limits.STEPS
    output: int = limits.SIZE


class Decision(msgspec.Struct):
    """Steps that all templates of one decision may take together.

    ``count`` is the number of evaluated templates, ``spent`` the steps they took.
    """

    steps: int = limits.DECISION
    spent: int = 0
    count: int = 0
    missing: list[Undefined] | None = None
    """Names that conditions read and nothing gave, if there are any."""

    def note(self, found: Undefined) -> None:
        """Note a name that a condition read, at most ``limits.MISSING`` of them."""
        if self.missing is None:
            self.missing = []
        if len(self.missing) < limits.MISSING:
            self.missing.append(found)

    def forget(self, handled: Undefined) -> None:
        """Forget a name whose absence the condition handles, by ``default`` or
        ``is defined``."""
        if self.missing is not None:
            self.missing = [each for each in self.missing if not each.is_as(handled)]

    def exceeded(self) -> TemplateError:
        return errors.too_much(
            f"the {self.count:,} templates of this decision take more than "
            f"{limits.DECISION:,} steps together; compare fewer values in them, or "
            "do the work in a python task"
        )


class Evaluation:
    """State shared by the closures of a template while they run."""

    __slots__ = (
        "formats",
        "locals",
        "output",
        "parts",
        "scope",
        "steps",
        "stored",
        "strict",
    )

    def __init__(
        self, scope: Mapping[str, JSON], steps: int, output: int, strict: bool
    ) -> None:
        self.scope = scope
        self.stored: Stored | None = getattr(scope, "stored", None)
        self.locals: dict[str, JSON] = {}  # names bound by set and for
        self.steps = steps
        self.output = output
        self.strict = strict
        self.parts: list[str] = []
        self.formats: Sequence[str] = ()  # the latest date formats

    def undefined(
        self, path: str, owner: str | None, key: JSON, container: JSON
    ) -> Undefined:
        """Return the value of a missing name; that of a condition is noted (S-73)."""
        if self.strict:
            return StrictUndefined(path, owner, key, container)
        found = Undefined(path, owner, key, container)
        decision: Decision | None = getattr(self.scope, "decision", None)
        if decision is not None and found.is_name:
            decision.note(found)
        return found

    def handled(self, value: Undefined) -> None:
        """Take note that the template handles the absence of a value."""
        decision: Decision | None = getattr(self.scope, "decision", None)
        if decision is not None:
            decision.forget(value)

    def charge(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise self.exhausted()

    def exhausted(self) -> TemplateError:
        return errors.too_much(
            f"the step budget of {limits.STEPS:,} is exceeded; loop over less, or do "
            "the work in a python task"
        )

    def made(self, text: str) -> str:
        """Charge for a text that was made.

        Where the text can grow without bound, ``size`` must have been checked before.
        """
        self.size(len(text))
        return text

    def size(self, length: int) -> None:
        """Reject a text or list above the limit, before it is made."""
        if length > limits.SIZE:
            raise errors.too_much(
                f"a text or list of {length:,} exceeds {limits.SIZE:,}, the maximum "
                "that a template may make"
            )
        self.steps -= 1 + length // limits.CHARS_PER_STEP
        if self.steps < 0:
            raise self.exhausted()

    def write(self, text: str) -> None:
        """Append to the output; raises an error above the limit."""
        self.output -= len(text)
        if self.output < 0:
            raise errors.too_much(
                f"the text exceeds {limits.SIZE:,} characters, the most that a "
                "template may make"
            )
        self.parts.append(text)
