"""What a call leaves in the audit: begun before it changes anything, ended after."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus
from typing import Literal

from noetl.access.audit import Audit, Entry, plain
from noetl.access.principal import Principal
from noetl.embedded import new_execution_id
from noetl.errors import StoreError
from noetl.types import JSON

log = logging.getLogger("noetl.audit")

Recorded = Literal["audit", "log", "never"]
"""Where it is put down who called: in the audit; in an event of the execution's log, so
that the audit has only what was refused; or nowhere, for nothing is changed by people.
"""


class Trail:
    """One call's."""

    def __init__(
        self, audit: Audit, action: str, recorded: Recorded, address: str
    ) -> None:
        self.address = address
        self._audit = audit
        self._action = action
        self._recorded = recorded
        self._at = time.time()
        self._begun: str | None = None  # under which id
        self._who: dict[str, str | None] | None = None
        self._target: dict[str, JSON] = {}

    def of(self, principal: Principal) -> None:
        """Whose call it is."""
        self._who = {
            "principal": principal.name,
            "user_id": principal.user_id,
            "means": principal.means,
            "credential": principal.credential,
        }

    def signs_in(self, name: str | None, means: str) -> None:
        """Somebody says that they are this account; None is nobody that is there."""
        self._who = {"principal": name, "means": means}

    def add(self, **target: JSON) -> None:
        """What the call is about: nothing that is, or could be, a secret."""
        self._target |= {name: plain(value) for name, value in target.items()}

    async def begin(self) -> None:
        """What cannot be put down is not done. Raises ``StoreError``."""
        if self._recorded == "audit" and self._who is not None:
            entry = self._entry(None, None)
            await self._audit.note(entry)
            self._begun = entry.audit_id

    async def end(self, status: int, problem: str | None = None) -> None:
        """Raises ``StoreError`` if nothing of the call is in the audit."""
        if not self._matters(status):
            return
        try:
            await self._audit.note(self._entry(status, problem))
        except StoreError:
            if self._begun is None:
                raise
            log.exception("the end of a call is not in the audit")

    def _matters(self, status: int) -> bool:
        """Strangers, and who is too fast, change nothing and could fill it."""
        if self._who is None or status == HTTPStatus.TOO_MANY_REQUESTS:
            return self._begun is not None
        if self._recorded == "log":
            return status == HTTPStatus.FORBIDDEN
        return self._recorded == "audit"

    def _entry(self, status: int | None, problem: str | None) -> Entry:
        return Entry(
            audit_id=self._begun or new_execution_id(),
            at=self._at,
            action=self._action,
            address=self.address,
            target=dict(self._target),
            status=status,
            problem=problem,
            **(self._who or {}),
        )
