"""The settings of a command: read once, when the command begins."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from noetl.config import Settings, read_settings

P = ParamSpec("P")
T = TypeVar("T")


def pass_settings(function: Callable[Concatenate[Settings, P], T]) -> Callable[P, T]:
    """Read the settings and pass them as the first argument.

    Options such as ``--config`` and ``--ca`` are in the environment by then.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(read_settings(), *args, **kwargs)

    return call
