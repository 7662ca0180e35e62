"""Webhooks: authenticated deliveries start executions."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Protocol

from noetl.errors import AccessError, SecretError, StoreError
from noetl.ports import Trigger, Triggers
from noetl.service.errors import RequestRefused
from noetl.service.executions.start import Started
from noetl.service.triggers.fire import TriggerStarter
from noetl.telemetry.trace_context import TraceParent
from noetl.triggers.definition import Webhook
from noetl.triggers.inputs import TriggerError, check_key, render_key
from noetl.triggers.webhook import (
    Headers,
    delivery_scope,
    has_token,
    is_signed,
    proof_header,
)
from noetl.types import JSON

_NONE = Webhook()
_KEY = "idempotency-key"


class Seal(Protocol):
    def seal(self, text: bytes, purpose: str) -> bytes: ...
    def open(self, sealed: bytes, purpose: str) -> bytes: ...


class WebhookReceiver:
    """Receives deliveries. Unknown names and failed proofs get the same refusal."""

    def __init__(
        self,
        triggers: Triggers,
        firing: TriggerStarter,
        seal: Seal,
        new_id: Callable[[], str],
    ) -> None:
        self._triggers = triggers
        self._firing = firing
        self._seal = seal
        self._new_id = new_id

    async def find(self, name: str, headers: Headers) -> Trigger:
        """Return the webhook that the sender may address. Raises ``AccessError``."""
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
        """Verify the signature of the body and the state of the trigger.

        Raises ``AccessError`` for a wrong signature, ``RequestRefused`` for a paused
        trigger.
        """
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
            hint = "resume the trigger, then send the delivery again"
            raise RequestRefused("trigger.paused", message, hint)

    async def accept(
        self,
        trigger: Trigger,
        headers: Headers,
        payload: JSON,
        trace: TraceParent | None = None,
    ) -> Started:
        """Start the execution of a delivery. Raises ``RequestRefused``.

        ``trace`` is the span of the sender.
        """
        definition = trigger.definition
        webhook = definition.webhook
        assert webhook is not None
        scope = delivery_scope(webhook, payload, headers)
        try:
            slot = self._slot(webhook, headers, scope)
        except TriggerError as error:
            message = f"{error.path}: {error.message}"
            raise RequestRefused("trigger.inputs", message, error.hint) from None
        return await self._firing.fire(trigger, slot, scope, trace=trace)

    def _slot(self, webhook: Webhook, headers: Headers, scope: dict[str, JSON]) -> str:
        if webhook.key is not None:
            return render_key(webhook.key, scope)
        given = headers.get(_KEY, ())
        return check_key(given[0], _KEY) if given else self._new_id()

    def sealed(self, name: str, secret: str) -> str:
        """Return the secret in sealed form, as it is stored."""
        sealed = self._seal.seal(secret.encode(), _purpose(name))
        return b64encode(sealed).decode()


def _not_proved() -> AccessError:
    message = "unknown webhook, or its sender is not authenticated: send the webhook's "
    message += "token as Authorization: Bearer nth_…, or the signature that it requires"
    return AccessError("auth.required", message, 401)


def _purpose(name: str) -> str:
    return f"trigger:{name}"
