"""Who gave an order, as events keep it: every change can be put down to somebody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from noetl.types import JSON

CALLER = "caller"
Caller: TypeAlias = Mapping[str, JSON] | None
"""``principal`` and ``address`` of whoever asked a server; None for nobody else's."""


def attributed(caller: Caller) -> dict[str, JSON]:
    """The member of a payload."""
    return {} if caller is None else {CALLER: dict(caller)}


def unattributed(payload: Mapping[str, JSON]) -> dict[str, JSON]:
    """What the order is, without who gave it."""
    return {name: value for name, value in payload.items() if name != CALLER}
