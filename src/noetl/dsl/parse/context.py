"""State shared by all parsers: the report, the kinds, and the templates found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.node import Location, shorten
from noetl.dsl.python_source import CodeBlock
from noetl.dsl.times import parse_duration
from noetl.dsl.tool_kinds import Kinds
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
    """Template with its location, which decides the names that it may read.

    ``depth`` is the number of loops around it; ``recorded`` marks a value that goes
    into the log, where secrets are not allowed.
    """

    template: Template
    at: Location
    site: Site
    step: str
    depth: int = 0
    recorded: bool = False
    guard: bool = False


class TemplateSite(msgspec.Struct, frozen=True):
    """Context of templates: the step, the kind of location, the loop depth."""

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
    workbook: Mapping[str, Location] = msgspec.field(default_factory=dict)
    uses: list[TemplateUse] = msgspec.field(default_factory=list)
    codes: list[CodeBlock] = msgspec.field(default_factory=list)

    @property
    def report(self) -> Report:
        return self.reader.report

    def guard(self, at: Location, where: TemplateSite) -> Template:
        """Compile a ``when``; a broken one is reported and counts as false."""
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
        self._record(template, at, where, guard=True)
        return template

    def template(self, at: Location, where: TemplateSite) -> Template | None:
        """Compile one text; report it and return None if it is not a valid template."""
        try:
            template = compile_template(at.node.value)
            if template.statements and not where.statements:
                message = "statements ({% … %}) are not available here"
                hint = "use an expression: {{ a if b else c }}, or a python task"
                raise TemplateError("template.forbidden", message, hint=hint)
        except TemplateError as error:
            self._complain(at, error)
            return None
        self._record(template, at, where)
        return template

    def value(self, at: Location, where: TemplateSite) -> Value:
        """Compile a tree of mappings and lists; broken leaves are reported."""
        if self._sound(at, where):
            return compile_value(at.node.plain())
        return compile_value(None)

    def _sound(self, at: Location, where: TemplateSite) -> bool:
        value = at.node.value
        if isinstance(value, str):
            return not is_template(value) or self.template(at, where) is not None
        if isinstance(value, dict | list):
            # Build the list first, so that every broken leaf is reported.
            sound = [self._sound(child, where) for child in at.children()]
            return all(sound)
        return True

    def duration(
        self, at: Location, code: str, where: TemplateSite, most: float
    ) -> float | Value:
        """Return the seconds, or the compiled template that yields them."""
        value = at.node.value
        if isinstance(value, str) and is_template(value):
            return self.value(at, msgspec.structs.replace(where, statements=False))
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            hint = "write seconds, or 500ms, 30s, 5m, 2h, 1d"
            self.report.error(code, "duration", at, str(error), hint)
            return 0.0
        if seconds > most:
            message = f"{value} is longer than {most / 86400:g} days, the maximum"
            self.report.error(code, "range", at, message)
        return seconds

    def _record(
        self,
        template: Template,
        at: Location,
        where: TemplateSite,
        *,
        guard: bool = False,
    ) -> None:
        self.uses.append(
            TemplateUse(
                template, at, where.site, where.step, where.depth, where.recorded, guard
            )
        )

    def _complain(self, at: Location, error: TemplateError) -> None:
        long = isinstance(at.node.value, str) and len(at.node.value) > 16 * 1024
        code, rule = ("S-70", "template-size") if long else ("VAL-22", "template")
        self.report.error(code, rule, at, error.message, error.hint)


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), 60)
