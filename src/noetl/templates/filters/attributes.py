"""The ``attribute`` argument of filters: ``'city'``, ``'address.city'``, ``0``."""

from __future__ import annotations

from collections.abc import Callable

from noetl.templates import faults
from noetl.templates.evaluation import Evaluation
from noetl.templates.undefined import Undefined
from noetl.templates.values import look_up, text_of
from noetl.types import JSON

Getter = Callable[[JSON], JSON]


def attribute_getter(run: Evaluation, attribute: JSON, default: JSON = None) -> Getter:
    """A function that follows dots into each item."""
    if attribute is None:
        return lambda item: item
    if not isinstance(attribute, str | int):
        raise faults.wrong(
            f"an attribute is text or a number, found {faults.kind_of(attribute)}"
        )
    parts: list[JSON] = [attribute]
    if isinstance(attribute, str):
        parts = [_part(p) for p in attribute.split(".")]
    path = f"item.{attribute}"

    def get(item: JSON) -> JSON:
        run.charge(2 * len(parts))
        for part in parts:
            item = look_up(run, item, part, path, "an item")
            if isinstance(item, Undefined):
                run.charge(8)  # remembering what is missing takes longer
                item = item if default is None else default
        return item

    return get


def _part(text: str) -> JSON:
    return int(text) if text.isdecimal() and len(text) < 10 else text


def sort_key(
    run: Evaluation, attribute: JSON, case_sensitive: bool, default: JSON = None
) -> Getter:
    """Like ``attribute_getter``, without regard to case unless asked for."""
    get = attribute_getter(run, attribute, default)
    if case_sensitive:
        return get

    def fold(item: JSON) -> JSON:
        value = get(item)
        if isinstance(value, str):
            run.charge(1 + len(value) // 64)
            return value.lower()
        return value

    return fold


def texts(run: Evaluation, items: list[JSON]) -> list[str]:
    """All items as text."""
    return [text_of(run, item) for item in items]
