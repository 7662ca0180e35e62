"""Audit of calls: recorded before a change begins and after it ends."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus
from typing import Literal

from noetl.access.audit import Audit, Entry, plain
from noetl.access.permissions import Principal
from noetl.errors import StoreError
from noetl.types import JSON
from noetl.wiring.identifiers import new_audit_id

log = logging.getLogger("noetl.audit")

Recorded = Literal["audit", "log", "never"]
"""Place of the caller's record: the audit; an event of the execution's log, with
refusals in the audit; or none, for calls that change nothing."""


class AuditTrail:
    """The audit record of one call."""

    def __init__(
        self, audit: Audit, action: str, recorded: Recorded, address: str
    ) -> None:
        self.address = address
        self._audit = audit
        self._action = action
        self._recorded = recorded
        self._at = time.time()
        self._begun: str | None = None  # the entry's id
        self._who: dict[str, str | None] | None = None
        self._target: dict[str, JSON] = {}

    def of(self, principal: Principal) -> None:
        """Set the caller."""
        self._who = {
            "principal": principal.name,
            "user_id": principal.user_id,
            "means": principal.means,
            "credential": principal.credential,
        }

    def signs_in(self, name: str | None, means: str) -> None:
        """Set the account of a sign-in attempt; None is an unknown account."""
        self._who = {"principal": name, "means": means}

    def add(self, **target: JSON) -> None:
        """Add members of the target; never a value that is or may be a secret."""
        self._target |= {name: plain(value) for name, value in target.items()}

    async def begin(self) -> None:
        """Record the call before it changes anything. Raises ``StoreError``."""
        if self._recorded == "audit" and self._who is not None:
            entry = self._entry(None, None)
            await self._audit.note(entry)
            self._begun = entry.audit_id

    async def end(self, status: int, problem: str | None = None) -> None:
        """Record the outcome. Raises ``StoreError`` if the call is not in the audit at
        all."""
        if not self._matters(status):
            return
        try:
            await self._audit.note(self._entry(status, problem))
        except StoreError:
            if self._begun is None:
                raise
            log.exception("the outcome of a call is missing from the audit")

    def _matters(self, status: int) -> bool:
        """Return False for refused callers without account and rate limits: they change
        nothing and could fill the audit."""
        if self._who is None or status == HTTPStatus.TOO_MANY_REQUESTS:
            return self._begun is not None
        if self._recorded == "log":
            return status == HTTPStatus.FORBIDDEN
        return self._recorded == "audit"

    def _entry(self, status: int | None, problem: str | None) -> Entry:
        return Entry(
            audit_id=self._begun or new_audit_id(),
            at=self._at,
            action=self._action,
            address=self.address,
            target=dict(self._target),
            status=status,
            problem=problem,
            **(self._who or {}),
        )
