"""What all parsers share: the report, the kinds, and the templates they met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.durations import parse_duration
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.kinds import Kinds
from noetl.dsl.node import shorten
from noetl.dsl.place import Place
from noetl.errors import TemplateError
from noetl.templates import (
    Template,
    Value,
    compile_guard,
    compile_template,
    compile_value,
    is_template,
)
from noetl.types import JSON

Site = Literal["input", "guard", "policy", "arc", "admit", "loop", "keychain", "place"]


class TemplateUse(msgspec.Struct, frozen=True):
    """A template where it stands: decides which names it may read.

    ``depth`` is how many loops enclose it; ``recorded`` tells that its value goes
    into the log, where no secret may go.
    """

    template: Template
    at: Place
    site: Site
    step: str
    depth: int = 0
    recorded: bool = False
    guard: bool = False


class Spot(msgspec.Struct, frozen=True):
    """Where templates are being read: the step, the kind of place, the loop depth."""

    step: str
    site: Site
    depth: int = 0
    recorded: bool = False
    statements: bool = True  # whether {% … %} is allowed, or expressions alone


class Context(msgspec.Struct):
    """State of one parse."""

    reader: Reader
    kinds: Kinds
    executor_spec: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    workbook: Mapping[str, Place] = msgspec.field(default_factory=dict)
    uses: list[TemplateUse] = msgspec.field(default_factory=list)

    @property
    def report(self) -> Report:
        return self.reader.report

    def guard(self, at: Place, spot: Spot) -> Template:
        """Compile a ``when``; a broken one is reported and stands for false."""
        source = at.node.value
        try:
            if isinstance(source, str) and not is_template(source):
                raise TemplateError(
                    "template.error",
                    f"'when' needs template delimiters, found '{_short(source)}'",
                    hint=f'write when: "{{{{ {_short(source)} }}}}"',
                )
            template = compile_guard(source)
        except TemplateError as error:
            self._complain(at, error)
            return compile_guard(False)
        self._record(template, at, spot, guard=True)
        return template

    def template(self, at: Place, spot: Spot) -> Template | None:
        """Compile one text; None (and reported) if it is not a valid template."""
        try:
            template = compile_template(at.node.value)
            if template.statements and not spot.statements:
                message = "statements ({% … %}) are not available here"
                hint = "use an expression: {{ a if b else c }}, or a python task"
                raise TemplateError("template.forbidden", message, hint=hint)
        except TemplateError as error:
            self._complain(at, error)
            return None
        self._record(template, at, spot)
        return template

    def value(self, at: Place, spot: Spot) -> Value:
        """Compile a tree of mappings and lists; broken leaves are reported."""
        if self._sound(at, spot):
            return compile_value(at.node.plain())
        return compile_value(None)

    def _sound(self, at: Place, spot: Spot) -> bool:
        value = at.node.value
        if isinstance(value, str):
            return not is_template(value) or self.template(at, spot) is not None
        if isinstance(value, dict | list):
            # All of them first: every broken leaf is reported, not only one.
            sound = [self._sound(child, spot) for child in at.children()]
            return all(sound)
        return True

    def duration(self, at: Place, code: str, spot: Spot, most: float) -> float | Value:
        """Seconds, or the compiled template that will yield them."""
        value = at.node.value
        if isinstance(value, str) and is_template(value):
            return self.value(at, msgspec.structs.replace(spot, statements=False))
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            hint = "write seconds, or 500ms, 30s, 5m, 2h, 1d"
            self.report.error(code, "duration", at, str(error), hint)
            return 0.0
        if seconds > most:
            message = f"{value} is longer than {most / 86400:g} days, the most allowed"
            self.report.error(code, "range", at, message)
        return seconds

    def _record(
        self, template: Template, at: Place, spot: Spot, *, guard: bool = False
    ) -> None:
        self.uses.append(
            TemplateUse(
                template, at, spot.site, spot.step, spot.depth, spot.recorded, guard
            )
        )

    def _complain(self, at: Place, error: TemplateError) -> None:
        long = isinstance(at.node.value, str) and len(at.node.value) > 16 * 1024
        code, rule = ("S-70", "template-size") if long else ("VAL-22", "template")
        self.report.error(code, rule, at, error.message, error.hint)


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), 60)
