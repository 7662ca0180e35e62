"""``loop.in``: evaluated once, and a list or a lazy range ever after."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.dsl.model import Loop
from noetl.engine.outcome import Failure
from noetl.engine.scope import Scope
from noetl.errors import TemplateError
from noetl.templates import Template, Undefined
from noetl.types import JSON

MAX_ITEMS = 1_000_000
_NOUNS = {dict: "a mapping", str: "text", bool: "a boolean", type(None): "null"}


class LoopFailed(Exception):
    """The collection is none: the step, or the outer iteration, fails with this."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.error: dict[str, JSON] = msgspec.to_builtins(Failure(kind, message))


def collection(loop: Loop, scope: Scope) -> JSON:
    """A list, or ``{start, stop, step}`` of a whole range. Raises ``LoopFailed``."""
    try:
        if isinstance(loop.items, Template):
            whole = loop.items.whole_range(scope)
            if whole is not None:
                _check_size(len(whole))
                return {"start": whole.start, "stop": whole.stop, "step": whole.step}
            value = loop.items.evaluate(scope)
        else:
            value = loop.items.render(scope)
    except TemplateError as error:
        raise LoopFailed(error.kind, f"loop.in: {error.message}") from None
    if isinstance(value, Undefined):
        raise LoopFailed("loop.in_type", "loop.in is undefined; a list is needed")
    if not isinstance(value, list):
        found = _NOUNS.get(type(value), "a number")
        raise LoopFailed("loop.in_type", f"loop.in is {found}; a list is needed")
    _check_size(len(value))
    return value


def _check_size(size: int) -> None:
    if size > MAX_ITEMS:
        raise LoopFailed("loop.too_many", f"{size:,} items; at most {MAX_ITEMS:,}")


def expand(items: JSON) -> Sequence[JSON]:
    """What is iterated over, without making a range's numbers."""
    if isinstance(items, list):
        return items
    return range(items["start"], items["stop"], items["step"])
