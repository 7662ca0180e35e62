"""Create, change, pause, remove and fire triggers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import msgspec

from noetl.access.credentials import digest, mint
from noetl.access.initiator import Initiator
from noetl.dsl.playbook_inputs import (
    check_templates_of,
    secret_inputs,
    warnings_of,
)
from noetl.errors import StoreError
from noetl.ports import Clock, Trigger, Triggers
from noetl.service.errors import RequestRefused
from noetl.service.executions.queries import ExecutionQueries
from noetl.service.executions.start import (
    ExecutionStarter,
    ResolvedPlaybook,
    Started,
    StartInputs,
)
from noetl.service.triggers.backfills import no_trigger
from noetl.service.triggers.fire import TriggerStarter
from noetl.service.triggers.on_finished import CompletionTriggers
from noetl.service.triggers.webhooks import WebhookReceiver
from noetl.templates import compile_value
from noetl.triggers.backfill import moment_in
from noetl.triggers.cron import Cron
from noetl.triggers.definition import Definition
from noetl.triggers.inputs import TriggerError, check_key
from noetl.triggers.parse import check, find_loop
from noetl.triggers.slots import first_at, slot_name, slot_scope
from noetl.triggers.webhook import HOOK, delivery_scope
from noetl.types import JSON

MAX_CONFLICTS = 20
MIN_SECRET_CHARS = 16


class Made(msgspec.Struct, frozen=True):
    """A stored trigger; ``token`` authenticates its senders and is shown once.

    ``warnings`` are messages about inputs that its playbook does not name (S-72).
    """

    trigger: Trigger
    created: bool
    token: str | None = None
    warnings: tuple[str, ...] = ()


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of a trigger that is fired by hand."""

    slot: str | None = None
    key: str | None = None
    payload: JSON = None
    execution_id: str | None = None
    again: str | None = None


class TriggerAdmin:
    def __init__(
        self,
        triggers: Triggers,
        starting: ExecutionStarter,
        firing: TriggerStarter,
        receiving: WebhookReceiver,
        completion: CompletionTriggers,
        looking: ExecutionQueries,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._triggers = triggers
        self._starting = starting
        self._firing = firing
        self._receiving = receiving
        self._completion = completion
        self._looking = looking
        self._clock = clock
        self._new_id = new_id

    async def get(self, name: str) -> Trigger:
        """Return the trigger. Raises ``RequestRefused`` (``trigger.unknown``)."""
        found = await self._triggers.get(name)
        if found is None:
            raise no_trigger(name)
        return found

    async def current(self, trigger: Trigger) -> Trigger:
        """Return the trigger with the latest execution of its last slot (S-77)."""
        if trigger.last_slot is None:
            return trigger
        latest = await self._firing.latest(trigger.name, slot_name(trigger.last_slot))
        last = latest or trigger.last_execution
        return msgspec.structs.replace(trigger, last_execution=last)

    async def list_all(self) -> Sequence[Trigger]:
        return await self._triggers.list_all()

    async def make(
        self,
        definition: Definition,
        owner: Initiator,
        *,
        check_known: Callable[[Trigger], None] = lambda known: None,
        sees: Callable[[str], bool] = lambda path: True,
        secret: str | None = None,
        replace: bool = False,
    ) -> Made:
        """Create or replace the trigger; an identical definition changes nothing.

        ``check_known`` raises if the owner may not change the existing trigger of that
        name; ``sees`` decides which paths a message may name. Raises
        ``RequestRefused``.
        """
        now = self._clock.now()
        try:
            check(definition, now)
        except TriggerError as error:
            raise _invalid(error) from None
        found = await self._starting.resolve(
            StartInputs(path=definition.path, version=definition.version)
        )
        if found.refusal is not None:
            raise found.refusal
        warnings = _check_inputs(found, definition)
        await self._refuse_loops(definition, sees)
        known = await self._triggers.get(definition.name)
        if known is not None:
            check_known(known)
            changed = await self._change(known, definition, owner, now, replace)
            return Made(changed, False, warnings=warnings)
        credential, token = self._credential(definition, secret)
        trigger = Trigger(
            definition=definition,
            created_at=now,
            created_by=owner.principal,
            owner=owner,
            credential=credential,
            cursor=now,
            next_at=_first_at(definition, now),
        )
        if not await self._triggers.add(trigger):  # a concurrent request was first
            return await self.make(
                definition,
                owner,
                check_known=check_known,
                sees=sees,
                secret=secret,
                replace=replace,
            )
        await self._completion.refresh()
        return Made(trigger, True, token, warnings)

    async def pause(self, name: str) -> Trigger:
        """Pause the trigger: it starts nothing until it is resumed."""
        return await self._set_paused(name, paused=True)

    async def resume(self, name: str) -> Trigger:
        """Resume the trigger; slots that were due during the pause are skipped."""
        return await self._set_paused(name, paused=False)

    async def remove(self, name: str) -> None:
        """Remove the trigger and its backfills; executions remain."""
        if not await self._triggers.remove(name):
            raise no_trigger(name)
        await self._completion.refresh()

    async def fire(
        self, trigger: Trigger, fired: Fired, initiator: Initiator
    ) -> Started:
        """Fire the trigger by hand, even if it is paused. Raises ``RequestRefused``.

        The execution has the rights of the initiator, who chooses the inputs, and not
        those of the trigger's owner.
        """
        definition = trigger.definition
        try:
            _check_fired(definition, fired)
            if definition.schedule is not None:
                slot, scope = self._moment(definition, fired)
            elif definition.webhook is not None:
                scope = delivery_scope(definition.webhook, fired.payload, {})
                slot = self._manual(fired)
            else:
                slot = fired.execution_id or ""
                summary = await self._looking.summary(slot)
                scope = {"execution": await self._completion.scope(definition, summary)}
        except TriggerError as error:
            raise _invalid(error) from None
        again = fired.again
        if again is None and definition.webhook is None and fired.key is None:
            known = await self._firing.answer(trigger.name, slot)
            if known is not None:  # also if the trigger has changed since
                return known
        return await self._firing.fire(
            trigger, slot, scope, initiator=initiator, again=again
        )

    def _moment(
        self, definition: Definition, fired: Fired
    ) -> tuple[str, dict[str, JSON]]:
        schedule = definition.schedule
        assert schedule is not None
        cron = Cron(schedule.cron, schedule.zone)
        if fired.slot is None:
            scope = slot_scope(cron, self._clock.now())
            return self._manual(fired), {"slot": scope}
        try:
            moment = moment_in(cron, fired.slot)
        except ValueError as error:
            raise TriggerError("slot", str(error)) from None
        if cron.next(moment - 1.0) != moment:
            after = cron.next(moment)
            hint = f"the next slot is {slot_name(after)}" if after is not None else None
            message = f"{fired.slot} is not a slot of '{schedule.cron}'"
            raise TriggerError("slot", message, hint)
        return slot_name(moment), {"slot": slot_scope(cron, moment)}

    def _manual(self, fired: Fired) -> str:
        key = self._new_id() if fired.key is None else check_key(fired.key, "key")
        return f"manual:{key}"

    async def _refuse_loops(
        self, definition: Definition, sees: Callable[[str], bool]
    ) -> None:
        if definition.finished is None:
            return
        others = [each.definition for each in await self._triggers.list_all()]
        loop = find_loop(definition, others)
        if loop is not None:
            way = " → ".join(path if sees(path) else "…" for path in loop)
            message = f"the trigger would start itself in a cycle: {way}"
            raise RequestRefused("trigger.loop", message)

    async def _change(
        self,
        known: Trigger,
        definition: Definition,
        owner: Initiator,
        now: float,
        replace: bool,
    ) -> Trigger:
        before = known.definition
        if before == definition and (known.owner == owner or not replace):
            return known
        if not replace:
            raise name_taken(
                known.name, "use --replace to change it, or delete it first"
            )
        if before.kind != definition.kind or _proof(before) != _proof(definition):
            message = f"'{known.name}' is a {before.kind} trigger of another kind"
            hint = "delete the trigger and create it again"
            raise RequestRefused("trigger.exists", message, hint)
        cursor = known.cursor if _clock(before) == _clock(definition) else now
        changed = msgspec.structs.replace(
            known,
            definition=definition,
            cursor=cursor,
            next_at=_first_at(definition, cursor),
            owner=owner,
        )
        return await self._put(changed, known.revision)

    async def _set_paused(self, name: str, *, paused: bool) -> Trigger:
        for _ in range(MAX_CONFLICTS):
            known = await self.get(name)
            if known.paused == paused:
                return known
            changed = msgspec.structs.replace(known, paused=paused)
            if not paused:
                now = self._clock.now()
                next_at = _first_at(known.definition, now)
                changed = msgspec.structs.replace(changed, cursor=now, next_at=next_at)
            if await self._triggers.replace(changed, known.revision):
                await self._completion.refresh()
                return await self.get(name)
        raise _busy(name)

    async def _put(self, trigger: Trigger, revision: int) -> Trigger:
        if not await self._triggers.replace(trigger, revision):
            raise _busy(trigger.name)
        await self._completion.refresh()
        return await self.get(trigger.name)

    def _credential(
        self, definition: Definition, secret: str | None
    ) -> tuple[str | None, str | None]:
        """Return the stored form of the credential, and the token to show."""
        webhook = definition.webhook
        if webhook is None or (secret is not None and webhook.verify == "token"):
            if secret is not None:
                message = "a secret requires webhook.verify: signature"
                raise _invalid(TriggerError("secret", message))
            return None, None
        if secret is not None:
            if len(secret) < MIN_SECRET_CHARS:
                message = f"a secret must have at least {MIN_SECRET_CHARS} characters"
                raise _invalid(TriggerError("secret", message))
            return self._receiving.sealed(definition.name, secret), None
        token = mint(HOOK, secrets.token_bytes(32))
        if webhook.verify == "signature":
            return self._receiving.sealed(definition.name, token), token
        return digest(token, HOOK), token


def _check_inputs(found: ResolvedPlaybook, definition: Definition) -> tuple[str, ...]:
    """Return warnings about the inputs. Raises ``RequestRefused`` for a value that
    cannot fit, whatever its templates yield."""
    playbook, workload = found.entry.playbook, definition.workload
    assert playbook is not None
    for name in sorted(secret_inputs(playbook) & workload.keys()):
        if compile_value(workload[name]).literal:
            message = "a trigger is stored as it is: it must not contain a secret input"
            hint = "read the secret from the keychain of the playbook"
            raise _invalid(TriggerError(f"workload.{name}", message, hint))
    error = check_templates_of(playbook, workload)
    if error is not None:
        raise _invalid(TriggerError("workload", error["message"]))
    return warnings_of(playbook, workload)


def name_taken(name: str, hint: str) -> RequestRefused:
    return RequestRefused(
        "trigger.exists", f"the trigger '{name}' already exists", hint
    )


def _check_fired(definition: Definition, fired: Fired) -> None:
    """Refuse inputs that this kind of trigger does not take."""
    takes = {
        "schedule": ("slot", "key", "again"),
        "webhook": ("payload", "key", "again"),
        "finished": ("execution_id", "again"),
    }[definition.kind]
    for name in fired.__struct_fields__:
        if name not in takes and getattr(fired, name) is not None:
            message = f"a {definition.kind} trigger does not take this input"
            raise TriggerError(
                name, message, f"inputs that it takes: {', '.join(takes)}"
            )
    if definition.finished is not None and fired.execution_id is None:
        message = "the finished execution is missing; pass --execution ID"
        raise TriggerError("execution_id", message)


def _first_at(definition: Definition, cursor: float) -> float | None:
    if definition.schedule is None:
        return None
    return first_at(definition.name, definition.schedule, cursor)


def _clock(definition: Definition) -> tuple[str, str] | None:
    schedule = definition.schedule
    return None if schedule is None else (schedule.cron, schedule.zone)


def _proof(definition: Definition) -> str | None:
    return None if definition.webhook is None else definition.webhook.verify


def _invalid(error: TriggerError) -> RequestRefused:
    place = f"{error.path}: " if error.path else ""
    return RequestRefused(
        "trigger.invalid", f"{place}{error.message}", error.hint, path=error.path
    )


def _busy(name: str) -> StoreError:
    return StoreError(
        f"the trigger '{name}' is being changed by others; try again", "store.busy"
    )
