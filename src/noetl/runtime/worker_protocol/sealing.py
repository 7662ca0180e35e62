"""Secrets on their way to and from workers: sealed, receipts and checks of uploads."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

import msgspec

from noetl.engine.reports.accept import Fact
from noetl.engine.runs import find_open
from noetl.engine.secrets.given_handles import carried_by, carried_in, is_for, names_in
from noetl.engine.secrets.handles import Secrets
from noetl.engine.secrets.task_requests import entries_read
from noetl.engine.values.references import made_by, references_in
from noetl.errors import BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned, SecretError
from noetl.ports import Lease
from noetl.runtime.dispatcher import WorkItem
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.values.ownership import Owners
from noetl.runtime.worker_protocol import messages
from noetl.types import JSON


class Seal(Protocol):
    """A cipher that one worker shares with the server."""

    def seal(self, text: bytes, purpose: str) -> bytes: ...
    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Decrypt. Raises ``SecretError`` for another key or purpose."""
        ...


def seal_value(seal: Seal, value: JSON, command_id: str) -> str:
    text = seal.seal(msgspec.json.encode(value), command_id)
    return base64.b64encode(text).decode()


def unseal_value(seal: Seal, sealed: str, command_id: str) -> JSON:
    """Decrypt a value. Raises ``SecretError`` if it is for another worker."""
    try:
        text = base64.b64decode(sealed, validate=True)
    except binascii.Error:
        raise SecretError("secret.sealed", "it is not sealed") from None
    return msgspec.json.decode(seal.open(text, command_id))


def seal_secrets(seal: Seal, work: WorkItem) -> str | None:
    """Encrypt the secrets that the pipeline may use: entries that its tasks read, and
    handles in its state and in the parts of ``ctx`` and ``workload`` that its tasks
    read.
    """
    if not work.secrets.keychain and not work.secrets.sealed:
        return None
    frame, progress = work.frame, work.progress
    tasks = work.playbook.steps[frame.step].tasks
    carried = carried_by(tasks, frame.args, progress, frame.ctx, frame.workload)
    keychain = work.secrets.keychain
    held = {
        "keychain": {name: keychain[name] for name in entries_read(tasks, keychain)},
        "sealed": dict(work.secrets.held_in(carried)),
    }
    return seal_value(seal, held, work.lease.command_id) if any(held.values()) else None


def open_secrets(seal: Seal, message: messages.WorkMessage) -> Secrets:
    """Decrypt the secrets of one command: the execution may hold others."""
    if message.sealed_secrets is None:
        return Secrets(partial=True)
    held = unseal_value(seal, message.sealed_secrets, message.lease.command_id)
    return Secrets(held["keychain"], held["sealed"], partial=True)


class UploadReceipts:
    """Signs and checks receipts. Servers of one store share ``secret``; workers lack
    it.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def give(self, execution_id: str, key: str) -> str:
        """Return the receipt for a value that a worker of this execution has sent
        whole.
        """
        text = f"{execution_id} {key}".encode()
        return hmac.new(self._secret, text, sha256).hexdigest()

    def unproven(
        self, execution_id: str, facts: Sequence[Fact], shown: Mapping[str, str]
    ) -> list[JSON]:
        """Return keys that facts claim without a receipt in ``shown``."""
        return [
            key
            for key in claimed_by(facts)
            if not isinstance(key, str)
            or not hmac.compare_digest(
                shown.get(key, "").encode(), self.give(execution_id, key).encode()
            )
        ]


def claimed_by(facts: Sequence[Fact]) -> Iterator[JSON]:
    """Return keys of values stored for these facts, as the facts list them. Keys that
    an outcome names must be proven in any case: no tool makes references (row 93).
    """
    for fact in facts:
        yield from made_by(fact.payload)
        for reference in references_in(fact.payload.get("outcome")):
            yield reference["key"]
            yield from reference.get("refs", ())


_ESCAPE = re.compile(rb"\\u00([0-9a-fA-F]{2})")
_MAX_NAME_BYTES = 32 * len(rb"\u0030")
"""Bytes of a name with each digit escaped."""


class HandleScan:
    """Finds names of secrets in JSON bytes that arrive in parts, in any JSON spelling.

    Names are random: one that occurs was copied from a handle.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = {name: name.encode() for name in names}
        self._tail = b""
        self.found: set[str] = set()

    def feed(self, part: bytes) -> None:
        if not self._names:
            return
        text = self._tail + part
        self._tail = text[-_MAX_NAME_BYTES:]
        if b"\\u00" in text:
            text = _ESCAPE.sub(_unescaped, text)
        self.found.update(name for name, each in self._names.items() if each in text)


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)])


def foreign_names(live: LoadedExecution, lease: Lease) -> set[str]:
    """Return secrets that were not fetched for the step of this lease: those of the
    execution, and those whose handles its workers see and another server may have
    fetched.
    """
    state = live.state
    run = state.runs.get(lease.command_id.split("/")[0])
    names = {*live.secrets.names, *names_in([state.ctx, state.workload])}
    if run is None:
        return names
    return {n for n in names if not is_for(n, lease.execution_id, run.step)}


async def check_upload(
    owners: Owners, live: LoadedExecution, lease: Lease, found: Collection[str]
) -> None:
    """Raise ``BlobNotOwned`` if one of the names ``found`` was not given to the
    pipeline of this lease.
    """
    if not found:
        return
    foreign, state = set(found), live.state
    command = find_open(state.runs, lease.command_id)
    if command is not None:
        tasks = live.playbook.steps[command.run.step].tasks
        for value in carried_in(state, tasks, command):
            foreign.difference_update(names_in(value))
            if foreign and state.spilled:
                foreign.difference_update(await _names(owners, lease, value))
    if foreign:
        message = (
            "the value holds the handle of a secret ({secret: …}) that this step was "
            "not given; a step may store those that it fetched, or reads"
        )
        raise BlobNotOwned(message)


async def _names(owners: Owners, lease: Lease, value: object) -> set[str]:
    try:
        return set(names_in(await owners.whole(lease.execution_id, value)))
    except (BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned):
        return set()
