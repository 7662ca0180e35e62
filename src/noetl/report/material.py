"""What every section of the page draws from."""

from __future__ import annotations

from functools import cached_property

from noetl.dsl.model import Playbook
from noetl.report.markup import Html, element
from noetl.report.reasons import Reasons
from noetl.report.record import Record
from noetl.report.values import Budget, show_value
from noetl.types import JSON

CHARACTERS = 1_500_000
"""Of values, over the whole page."""


class Material:
    """``source`` is the playbook's text; ``playbook`` is None where it is not valid."""

    def __init__(
        self, record: Record, playbook: Playbook | None, source: str | None
    ) -> None:
        self.record = record
        self.playbook = playbook
        self.source = source
        self.reasons = Reasons(playbook)
        self._budget = Budget(CHARACTERS)

    @property
    def execution_id(self) -> str:
        return self.record.state.execution_id

    @cached_property
    def steps(self) -> list[str]:
        """In the order of the playbook; then those that only the log knows."""
        known = self.playbook.steps if self.playbook is not None else ()
        return list(dict.fromkeys([*known, *filter(None, self.record.steps)]))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {step: number for number, step in enumerate(self.steps, 1)}

    def anchor(self, step: str) -> str:
        """An id without the author's letters."""
        return f"step-{self._numbers.get(step, 0)}"

    def step_link(self, step: str, **attributes: str) -> Html:
        return element("a", step, href=f"#{self.anchor(step)}", **attributes)

    def line_link(self, line: int | None) -> Html | None:
        if line is None:
            return None
        words = f"line {line}"
        if self.source is None:
            return element("span", words, class_="line")
        return element("a", words, href=f"#line-{line}", class_="line")

    def value(self, value: JSON, limit: int, command: str = "show") -> Html:
        rest = f"noetl {command} {self.execution_id} --json"
        return show_value(value, self._budget, limit, rest)
