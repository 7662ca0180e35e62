"""Compares recorded payloads with the types that are declared for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from noetl.engine.events import EVENTS, Event


def check_payloads(events: Iterable[Event]) -> None:
    """Fails at a payload that lacks a member, has one too many, or one of another type.

    Members that were spilled are references, and are not compared.
    """
    for event in events:
        where = f"{event.name}, event {event.seq}"
        payload = dict(event.payload)
        spilled = {path.split(".")[0] for path in payload.get("spilled", ())}
        declared = EVENTS[event.name].payload
        try:
            known: Any = msgspec.convert(payload, declared, strict=True)
        except msgspec.ValidationError as error:
            if spilled:
                continue
            raise AssertionError(f"{where}: {error}") from None
        for name, value in payload.items():
            assert name in known, f"{where}: the member '{name}' is not declared"
            assert known[name] == value, f"{where}: '{name}' has undeclared members"
