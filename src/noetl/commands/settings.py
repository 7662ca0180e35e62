"""The settings of a command, read when it begins, and options of several commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import click

from noetl.commands.output.diagnostics import print_warnings
from noetl.config import Settings, read_settings
from noetl.dsl.labels import read_labels
from noetl.telemetry.trace_context import VARIABLE, TraceParent, read_traceparent

T = TypeVar("T")


class LabelType(click.ParamType[str]):
    """A label, ``name=value``; it is checked, and stays text."""

    name = "label"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        try:
            read_labels((value,))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


def label_option(words: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return the option ``--label``, which may be repeated."""
    return click.option(
        "--label",
        "labels",
        multiple=True,
        type=LabelType(),
        metavar="NAME=VALUE",
        help=f"{words} May be repeated.",
    )


def read_caller() -> TraceParent | None:
    """Return the span of the caller, from the environment; warn about a wrong one."""
    given = os.environ.get(VARIABLE)
    caller, ignored = read_traceparent([given] if given else None, VARIABLE)
    print_warnings([ignored] if ignored else [])
    return caller


P = ParamSpec("P")


def pass_settings(function: Callable[Concatenate[Settings, P], T]) -> Callable[P, T]:
    """Read the settings and pass them as the first argument.

    Options such as ``--config`` and ``--ca`` are in the environment by then.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(read_settings(), *args, **kwargs)

    return call
