"""Secrets on the wire: sealed for one worker, and for one command of it."""

from __future__ import annotations

import base64
import binascii
from typing import Protocol

import msgspec

from noetl.engine.secret_tasks import entries_read, parts_read
from noetl.engine.secrets import Secrets
from noetl.errors import SecretError
from noetl.runtime import wire
from noetl.runtime.live import Work
from noetl.types import JSON


class Seal(Protocol):
    """A cipher that only one worker and the server have in common."""

    def seal(self, text: bytes, purpose: str) -> bytes: ...
    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Raises ``SecretError`` if it was sealed otherwise, or changed since."""
        ...


def seal_value(seal: Seal, value: JSON, command_id: str) -> str:
    text = seal.seal(msgspec.json.encode(value), command_id)
    return base64.b64encode(text).decode()


def unseal_value(seal: Seal, sealed: str, command_id: str) -> JSON:
    """Raises ``SecretError`` if it was sealed for somebody else, or changed."""
    try:
        text = base64.b64decode(sealed, validate=True)
    except binascii.Error:
        raise SecretError("secret.sealed", "it is not sealed") from None
    return msgspec.json.decode(seal.open(text, command_id))


def seal_secrets(seal: Seal, work: Work) -> str | None:
    """Those that the pipeline may use: entries that its tasks read, and the handles in
    what it carries and in what its tasks read of ``ctx`` and ``workload``."""
    if not work.secrets.keychain and not work.secrets.handles:
        return None
    frame, progress = work.frame, work.progress
    tasks = work.playbook.steps[frame.step].tasks
    carried = [frame.args, progress.prev, progress.iter, progress.result]
    carried += parts_read(tasks, "ctx", frame.ctx)
    carried += parts_read(tasks, "workload", frame.workload)
    keychain = work.secrets.keychain
    held = {
        "keychain": {name: keychain[name] for name in entries_read(tasks, keychain)},
        "sealed": dict(work.secrets.held_in(carried)),
    }
    return seal_value(seal, held, work.lease.command_id) if any(held.values()) else None


def open_secrets(seal: Seal, order: wire.Order) -> Secrets:
    """Those of one command: the execution may hold others."""
    if order.secrets is None:
        return Secrets(partial=True)
    held = unseal_value(seal, order.secrets, order.lease.command_id)
    return Secrets(held["keychain"], held["sealed"], partial=True)
