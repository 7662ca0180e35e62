"""Webhooks: deliveries of senders that prove themselves become executions."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Protocol

from noetl.errors import AccessError, SecretError, StoreError
from noetl.ports import Trigger, Triggers
from noetl.service.firing import Firing
from noetl.service.refusal import Refusal
from noetl.service.starting import Started
from noetl.triggers.definition import Webhook
from noetl.triggers.deliveries import (
    Headers,
    delivery_scope,
    has_token,
    is_signed,
    proof_header,
)
from noetl.triggers.inputs import TriggerError, check_key, render_key
from noetl.types import JSON

_NONE = Webhook()
_KEY = "idempotency-key"


class Seal(Protocol):
    def seal(self, text: bytes, purpose: str) -> bytes: ...
    def open(self, sealed: bytes, purpose: str) -> bytes: ...


class Receiving:
    """One answer for whatever is not there, or not proved: nobody learns names."""

    def __init__(
        self,
        triggers: Triggers,
        firing: Firing,
        seal: Seal,
        new_id: Callable[[], str],
    ) -> None:
        self._triggers = triggers
        self._firing = firing
        self._seal = seal
        self._new_id = new_id

    async def find(self, name: str, headers: Headers) -> Trigger:
        """The webhook of a sender that may be its own. Raises ``AccessError``."""
        trigger = await self._triggers.get(name)
        webhook = trigger.definition.webhook if trigger is not None else None
        if trigger is None or webhook is None:
            has_token(_NONE, headers, None)
            raise _not_proved()
        if webhook.verify == "signature":
            if not headers.get(proof_header(webhook)):
                raise _not_proved()
        elif not has_token(webhook, headers, trigger.credential):
            raise _not_proved()
        return trigger

    def check(self, trigger: Trigger, headers: Headers, body: bytes) -> None:
        """A signature is of the body. Raises ``AccessError``, or ``Refusal``."""
        webhook = trigger.definition.webhook
        assert webhook is not None
        if webhook.verify == "signature":
            sealed = b64decode(trigger.credential or "")
            try:
                secret = self._seal.open(sealed, _purpose(trigger.name))
            except SecretError as error:
                raise StoreError(f"the secret of '{trigger.name}': {error}") from None
            if not is_signed(webhook, headers, body, secret):
                raise _not_proved()
        if trigger.paused:
            message = f"the trigger '{trigger.name}' is paused"
            raise Refusal("trigger.paused", message, "send it again when it is not")

    async def accept(
        self, trigger: Trigger, headers: Headers, payload: JSON
    ) -> Started:
        """Raises ``Refusal``."""
        definition = trigger.definition
        webhook = definition.webhook
        assert webhook is not None
        scope = delivery_scope(webhook, payload, headers)
        try:
            slot = self._slot(webhook, headers, scope)
        except TriggerError as error:
            message = f"{error.path}: {error.message}"
            raise Refusal("trigger.inputs", message, error.hint) from None
        return await self._firing.fire(trigger, slot, scope)

    def _slot(self, webhook: Webhook, headers: Headers, scope: dict[str, JSON]) -> str:
        if webhook.key is not None:
            return render_key(webhook.key, scope)
        given = headers.get(_KEY, ())
        return check_key(given[0], _KEY) if given else self._new_id()

    def sealed(self, name: str, secret: str) -> str:
        """A secret as it is kept."""
        sealed = self._seal.seal(secret.encode(), _purpose(name))
        return b64encode(sealed).decode()


def _not_proved() -> AccessError:
    message = "there is no such webhook, or its sender does not prove itself: send its "
    message += "token as Authorization: Bearer nth_…, or the signature that it asks for"
    return AccessError("auth.required", message, 401)


def _purpose(name: str) -> str:
    return f"trigger:{name}"
