"""Secrets on the wire: sealed for one worker, and for one command of it."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Protocol

import msgspec

from noetl.engine.secrets import Secrets
from noetl.errors import SecretError
from noetl.ports import Lease
from noetl.runtime import wire
from noetl.runtime.live import Work
from noetl.types import JSON

_COMPUTED = re.compile(r"\bkeychain\b(?!\.)")


class Seal(Protocol):
    """A cipher that only one worker and the server have in common."""

    def seal(self, text: bytes, purpose: str) -> bytes: ...
    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Raises ``SecretError`` if it was sealed otherwise, or changed since."""
        ...


def seal_value(seal: Seal, value: JSON, lease: Lease) -> str:
    text = seal.seal(msgspec.json.encode(value), lease.command_id)
    return base64.b64encode(text).decode()


def unseal_value(seal: Seal, sealed: str, lease: Lease) -> JSON:
    """Raises ``SecretError`` if it was sealed for somebody else, or changed."""
    try:
        text = base64.b64decode(sealed, validate=True)
    except binascii.Error:
        raise SecretError("secret.sealed", "it is not sealed") from None
    return msgspec.json.decode(seal.open(text, lease.command_id))


def seal_secrets(seal: Seal, work: Work) -> str | None:
    """Those that the pipeline may use: named by its tasks, or by handles it carries."""
    if not work.secrets.keychain and not work.secrets.handles:
        return None
    frame, progress = work.frame, work.progress
    carried = [frame.args, frame.ctx, progress.prev, progress.iter, progress.result]
    held = {
        "keychain": {name: work.secrets.keychain[name] for name in _named(work)},
        "sealed": dict(work.secrets.held_in(carried)),
    }
    return seal_value(seal, held, work.lease) if any(held.values()) else None


def open_secrets(seal: Seal, order: wire.Order) -> Secrets:
    if order.secrets is None:
        return Secrets()
    held = unseal_value(seal, order.secrets, order.lease)
    return Secrets(held["keychain"], held["sealed"])


def _named(work: Work) -> list[str]:
    """Entries of the keychain whose names the tasks have in them; all of them where a
    name is computed."""
    tasks = work.playbook.steps[work.frame.step].tasks
    said = [[task.body, task.spec] for task in tasks]
    text = msgspec.json.encode([said, work.playbook.workbook]).decode()
    every = list(work.secrets.keychain)
    return every if _COMPUTED.search(text) else [n for n in every if n in text]
