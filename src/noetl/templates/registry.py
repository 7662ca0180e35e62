"""Catalog of filters, tests, methods and globals, checked and documented."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature, signature
from math import inf
from typing import TypeVar

from noetl.errors import TemplateError
from noetl.templates import errors
from noetl.templates.evaluation import Evaluation
from noetl.templates.undefined import Undefined
from noetl.types import JSON

Function = TypeVar("Function", bound=Callable[..., JSON])


@dataclass(frozen=True)
class Entry:
    """Function that templates may use.

    It takes the evaluation, the value it is applied to, and the author's arguments.
    """

    sort: str
    name: str
    function: Callable[..., JSON]
    example: str
    lenient: bool = False  # accepts undefined values, even in strict mode

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters that an author may pass."""
        skipped = 1 if self.sort == "global" else 2
        return tuple(signature(self.function).parameters.values())[skipped:]

    @property
    def signature(self) -> str:
        """Signature as an author writes it: ``round(precision=0, method='common')``."""
        inside = ", ".join(map(_spell, self.parameters))
        return f"{self.name}({inside})" if inside else self.name

    def accepts(self, count: int, keywords: tuple[str, ...]) -> bool:
        """Return whether ``count`` arguments and these keywords fit."""
        if not keywords:
            return self._least <= count <= self._most
        try:
            Signature(self.parameters).bind(*range(count), **dict.fromkeys(keywords))
        except TypeError:
            return False
        return True

    @cached_property
    def _least(self) -> int:
        required = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        return sum(
            p.kind in required and p.default is Parameter.empty for p in self.parameters
        )

    @cached_property
    def _most(self) -> float:
        if any(p.kind is Parameter.VAR_POSITIONAL for p in self.parameters):
            return inf
        return sum(p.kind is not Parameter.VAR_KEYWORD for p in self.parameters)

    def apply(
        self, run: Evaluation, value: JSON, args: list[JSON], named: dict[str, JSON]
    ) -> JSON:
        """Call the function; any exception becomes a ``TemplateError``."""
        run.charge(5)
        if run.strict and not self.lenient:
            if isinstance(value, Undefined):
                raise value.error()
            for given in (*args, *named.values()) if args or named else ():
                if isinstance(given, Undefined):
                    raise given.error()
        try:
            return self.function(run, value, *args, **named)
        except TemplateError:
            raise
        except Exception as error:
            raise errors.translate(error, f"{self.sort} {self.name}") from None


class Catalog(dict[str, Entry]):
    """Entries by name."""

    def __init__(self, sort: str) -> None:
        super().__init__()
        self.sort = sort

    def add(
        self, *names: str, example: str, lenient: bool = False
    ) -> Callable[[Function], Function]:
        """Declare a function under one or several names."""

        def declare(function: Function) -> Function:
            for name in names:
                self[name] = Entry(self.sort, name, function, example, lenient)
            return function

        return declare

    def find(self, name: str) -> Entry:
        """Return the entry; raises an error with the nearest name."""
        entry = self.get(name)
        if entry is None:
            known = sorted(filter(str.isidentifier, self))
            raise errors.forbidden(
                f"unknown {self.sort} '{name[:64]}'",
                errors.nearest(name, self) or f"available: {', '.join(known)}",
            )
        return entry


def _spell(parameter: Parameter) -> str:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    if parameter.kind is Parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.default is Parameter.empty:
        return parameter.name
    words = {None: "none", True: "true", False: "false"}
    default = parameter.default
    plain = words[default] if default is None or default is True else repr(default)
    return f"{parameter.name}={'false' if default is False else plain}"


FILTERS = Catalog("filter")
TESTS = Catalog("test")
GLOBALS = Catalog("global")
METHODS: dict[str, Catalog] = {
    "text": Catalog("method"),
    "mapping": Catalog("method"),
    "list": Catalog("method"),
}
"""Methods by the type of value."""
