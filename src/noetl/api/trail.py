"""What a call leaves in the audit: begun before it changes anything, ended after."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus
from typing import Literal

import msgspec

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
        self._audit = audit
        self._recorded = recorded
        self._entry = Entry(
            audit_id=new_execution_id(), at=time.time(), action=action, address=address
        )
        self._begun = False
        self._target: dict[str, JSON] = {}
        self._is_known = False

    def of(self, principal: Principal) -> None:
        """Whose call it is."""
        self._is_known = True
        self._entry = msgspec.structs.replace(
            self._entry,
            principal=principal.name,
            user_id=principal.user_id,
            means=principal.means,
            credential=principal.credential,
        )

    def signs_in(self, name: str | None, means: str) -> None:
        """Somebody says that they are this account; None is nobody that is there."""
        self._is_known = True
        self._entry = msgspec.structs.replace(self._entry, principal=name, means=means)

    def add(self, **target: JSON) -> None:
        """What the call is about: nothing that is, or could be, a secret."""
        self._target |= {name: plain(value) for name, value in target.items()}

    async def begin(self) -> None:
        """What cannot be put down is not done. Raises ``StoreError``."""
        if self._recorded == "audit" and self._is_known:
            await self._audit.note(self._noted(None, None))
            self._begun = True

    async def end(self, status: int, problem: str | None = None) -> None:
        """Raises ``StoreError`` if nothing of the call is in the audit."""
        if not self._matters(status):
            return
        try:
            await self._audit.note(self._noted(status, problem))
        except StoreError:
            if not self._begun:
                raise
            log.exception("the end of a call is not in the audit")

    def _matters(self, status: int) -> bool:
        """Strangers, and who is too fast, change nothing and could fill it."""
        if not self._is_known or status == HTTPStatus.TOO_MANY_REQUESTS:
            return self._begun
        if self._recorded == "log":
            return status == HTTPStatus.FORBIDDEN
        return self._recorded == "audit"

    def _noted(self, status: int | None, problem: str | None) -> Entry:
        return msgspec.structs.replace(
            self._entry, target=dict(self._target), status=status, problem=problem
        )
