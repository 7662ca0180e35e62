"""Starts executions: secrets, concurrency, the first events, an idle worker."""

from __future__ import annotations

from functools import partial

import msgspec

from noetl.dsl.model import Playbook
from noetl.dsl.playbook_inputs import check_inputs, secret_inputs, warnings_of
from noetl.engine.decide import Request, accept, check_request, reject
from noetl.engine.events import Event
from noetl.engine.recorder import Recorder
from noetl.engine.secrets.handles import Secrets
from noetl.engine.secrets.redaction import Redactor
from noetl.engine.state import State
from noetl.errors import KeychainError, NoPlace, RequestKnown, StoreError
from noetl.ports import Blobs, Clock, Store
from noetl.runtime.executions.access import Executions
from noetl.runtime.executions.concurrency import ConcurrencyLimiter
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.placement import Placement
from noetl.runtime.executions.transition import rejection_of
from noetl.runtime.keychain import Keyring
from noetl.runtime.values.stores import store_blobs
from noetl.runtime.worker_protocol.idle_workers import IdleWorkers
from noetl.types import JSON


class ExecutionStarter:
    """Accepts requests, or records why they are rejected."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        clock: Clock,
        keys: Keyring,
        executions: Executions,
        limiter: ConcurrencyLimiter,
        placement: Placement,
        idle_workers: IdleWorkers,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._keys = keys
        self._executions = executions
        self._cache = executions.cache
        self._limiter = limiter
        self._placement = placement
        self._idle_workers = idle_workers

    async def start(
        self, playbook: Playbook, request: Request
    ) -> dict[str, JSON] | None:
        """Accept the request: its first events are stored when this returns None.

        Otherwise the request is rejected, and this returns the error: a forged
        reference (S-82), inputs that do not fit (S-72), a secret that is not there
        (KEY-03), a taken concurrency key.
        """
        request = msgspec.structs.replace(request, labels=_labels(playbook, request))
        wrong = check_request(request) or self._check_inputs(playbook, request)
        if wrong is not None:
            await self.reject(request, wrong)
            return wrong
        warnings = warnings_of(playbook, request.workload)
        request = msgspec.structs.replace(request, warnings=warnings)
        try:
            secrets = await self._resolve_secrets(playbook, request)
            name, given = request.execution_id, request.workload
            workload = await self._keys.seal_inputs(name, playbook, given)
            request = msgspec.structs.replace(request, workload=workload)
        except KeychainError as error:
            await self._keys.drop(request.execution_id)
            await self.reject(request, error.error)
            return error.error
        loaded = LoadedExecution.of(playbook, State(), request.playbook, secrets)
        loaded.request_key = request.request_key
        self._cache[request.execution_id] = loaded
        try:
            refusal = await self._append_first_events(request, loaded)
        except StoreError as error:
            self._cache.drop(request.execution_id)  # its log says whether it is stored
            if isinstance(error, RequestKnown):  # another execution has this key
                await self._keys.drop(request.execution_id)
            raise
        if refusal is not None:
            self._cache.drop(request.execution_id)
            await self._keys.drop(request.execution_id)
            await self.reject(request, refusal)
        return refusal

    def _check_inputs(
        self, playbook: Playbook, request: Request
    ) -> dict[str, JSON] | None:
        """Check the inputs as templates see them: secrets of a caller are open."""
        workload = request.workload
        if request.parent is not None:
            workload = self._keys.reveal(request.parent["execution_id"], workload)
        return check_inputs(playbook, workload)

    async def _resolve_secrets(self, playbook: Playbook, request: Request) -> Secrets:
        """Resolve the keychain, and share the secrets in the inputs of a child."""
        execution_id, about = request.execution_id, request.playbook
        secrets = await self._keys.resolve(execution_id, playbook.keychain, about)
        if request.parent is not None:
            caller = request.parent["execution_id"]
            await self._keys.share(caller, execution_id, request.workload)
        return secrets

    async def _append_first_events(
        self, request: Request, loaded: LoadedExecution
    ) -> dict[str, JSON] | None:
        """Store the first events, or return why its concurrency key rejects it.

        A commit takes the key together with the first events, so the limiter is asked
        only where the store has found the key taken.
        """
        # Labels and a key are shown: they must not contain a secret (S-41).
        labels = loaded.secrets.redact(request.labels, short=False)
        request = msgspec.structs.replace(request, labels=labels)
        if request.concurrency is None:
            await self._append_and_hand_over(request, loaded)
            return None
        key = loaded.secrets.redact(request.concurrency.key, short=False)
        concurrency = msgspec.structs.replace(request.concurrency, key=key)
        request = msgspec.structs.replace(request, concurrency=concurrency)
        try:
            await self._append_and_hand_over(request, loaded)
        except NoPlace:
            admission = await self._limiter.admit(concurrency)
            if admission.refusal is None:
                queued = partial(accept, request=request, queued=True)
                await self._executions.enqueue(request.execution_id, queued)
            return admission.refusal
        return None

    async def _append_and_hand_over(
        self, request: Request, loaded: LoadedExecution
    ) -> None:
        """Store the first events; an idle worker gets the first step with them."""
        pool = self._placement.first_pool(loaded)
        worker, prefetch = self._idle_workers.find_free(pool) or (None, None)
        decision, work = partial(accept, request=request), None
        try:
            answer = await self._executions.enqueue(
                request.execution_id, decision, prefetch=prefetch
            )
            work = answer.work
        finally:
            if worker is not None:
                worker.take(work)

    async def reject(self, request: Request, error: dict[str, JSON]) -> list[Event]:
        """Record a rejected request (S-42); return its events."""
        recorder = Recorder(State(), self._clock.now())
        reject(recorder, request, error)
        await store_blobs(self._blobs, recorder)
        about, key = request.playbook, request.request_key
        await self._store.commit([rejection_of(recorder, about, key, self._placement)])
        return recorder.events


def _labels(playbook: Playbook, request: Request) -> dict[str, str]:
    """Return the labels of playbook and request, without secret inputs (S-41)."""
    labels = {**playbook.labels, **request.labels}
    secrets = [request.workload.get(name) for name in secret_inputs(playbook)]
    if not secrets or not labels:
        return labels
    redactor = Redactor(text for text in secrets if isinstance(text, str))
    masked: dict[str, str] = redactor.data(labels)
    return masked
