"""Receipts for what workers send: nobody can name as its own what it never had."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from noetl.engine.references import made_by, references_in
from noetl.engine.reports import Fact
from noetl.types import JSON


class Receipts:
    """Servers of one store have the same ``secret``; workers do not know it."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def give(self, execution_id: str, key: str) -> str:
        """For a value that came, whole, from a worker of this execution."""
        text = f"{execution_id} {key}".encode()
        return hmac.new(self._secret, text, sha256).hexdigest()

    def unproven(
        self, execution_id: str, facts: Sequence[Fact], shown: Mapping[str, str]
    ) -> list[JSON]:
        """Keys that facts claim, and for which no receipt is ``shown``."""
        return [
            key
            for key in claimed_by(facts)
            if not isinstance(key, str)
            or not hmac.compare_digest(
                shown.get(key, "").encode(), self.give(execution_id, key).encode()
            )
        ]


def claimed_by(facts: Sequence[Fact]) -> Iterator[JSON]:
    """Keys of what was stored for these facts, as they say. What an outcome names must
    be proven in any case: no tool makes references (row 93)."""
    for fact in facts:
        yield from made_by(fact.payload)
        for reference in references_in(fact.payload.get("outcome")):
            yield reference["key"]
            yield from reference.get("refs", ())
