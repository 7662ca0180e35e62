"""The keychain of executions: resolved before the start, sealed until the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex

import msgspec

from noetl.dsl.diagnostics import nearest
from noetl.dsl.model import KeychainEntry, Playbook, Task
from noetl.dsl.playbook_inputs import secret_inputs
from noetl.engine.secrets.given_handles import name_for
from noetl.engine.secrets.handles import Secrets, handle
from noetl.engine.secrets.task_requests import credential_named, secret_named
from noetl.engine.state import State
from noetl.errors import KeychainError, SecretError, TemplateError
from noetl.ports import SealedStore, SecretProvider, TaskPlace, Wanted
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.types import JSON

LARGEST = 1024 * 1024
KEYCHAIN = "keychain"
"""The name under which all resolved entries are sealed; handles are random."""


class OpenSecrets(msgspec.Struct):
    """The decrypted secrets of a loaded execution."""

    secrets: Secrets
    entries: Mapping[str, KeychainEntry]
    about: Mapping[str, JSON]


class Keyring:
    """Secrets in this process; the store holds only sealed ones, outside of the log."""

    def __init__(
        self, providers: Mapping[str, SecretProvider], sealed: SealedStore
    ) -> None:
        self._providers = providers
        self._sealed = sealed
        self._held: dict[str, OpenSecrets] = {}

    async def resolve(
        self,
        execution_id: str,
        entries: Sequence[KeychainEntry],
        about: Mapping[str, JSON],
    ) -> Secrets:
        """Resolve every entry, used or not (KEY-03), in the order of the text.

        ``about`` is the playbook as the execution records it: its path decides which
        kept secrets it may use. Secrets are sealed when this returns. Raises
        ``KeychainError`` with all entries that cannot be resolved.
        """
        found: dict[str, JSON] = {}
        problems: list[dict[str, JSON]] = []
        for entry in entries:
            try:
                wanted = _wanted(entry, found, about)
                found[entry.name] = await self._get(wanted)
            except SecretError as error:
                # An entry may use earlier ones, and its error quotes it.
                message = Secrets(found).redact_text(error.message)
                problems.append(
                    {"name": entry.name, "kind": entry.kind, "message": message}
                )
        if problems:
            message = "; ".join(map(_sentence, problems))
            raise KeychainError(_refusal(message, problems))
        if found:
            try:
                await self._sealed.save(execution_id, KEYCHAIN, found)
            except SecretError as error:
                raise KeychainError(_refusal(error.message, [])) from None
        return self._hold(execution_id, Secrets(found), entries, about)

    async def open(
        self,
        execution_id: str,
        entries: Sequence[KeychainEntry],
        about: Mapping[str, JSON],
    ) -> Secrets:
        """Unseal the secrets; no provider is called (S-67). Raises ``SecretError``."""
        sealed = await self._sealed.load(execution_id)
        keychain = sealed.pop(KEYCHAIN, {})
        missing = [entry.name for entry in entries if entry.name not in keychain]
        if missing:
            message = f"the sealed secrets of {execution_id} are gone: "
            raise SecretError("secret.sealed", message + ", ".join(missing))
        return self._hold(execution_id, Secrets(keychain, sealed), entries, about)

    async def fetch(
        self,
        at: TaskPlace,
        name: str | None,
        provider: str | None,
        path: str | None,
    ) -> dict[str, JSON]:
        """Look up a secret for a ``secrets`` task, seal it, and return its handle.

        A name of the keychain is resolved again, which changes nothing there (KEY-06).
        """
        execution_id = at.execution_id
        held = self._of(execution_id)
        if name is not None and provider is None and name in held.entries:
            entry = held.entries[name]
            wanted = _wanted(entry, held.secrets.keychain, held.about, fresh=True)
        else:
            where = path or name or ""
            kind = provider or "secret_manager"
            wanted = _asked(name or where, kind, {"path": where}, held.about, True)
        value = await self._get(wanted)
        name = name_for(token_hex(8), execution_id, at.step)
        await self._keep(execution_id, name, value)
        return handle(name)

    async def authorize(
        self, at: TaskPlace, auth: Mapping[str, JSON], *, fresh: bool
    ) -> dict[str, JSON]:
        """Return a token for ``auth: {type: oauth2, …}``; it is masked like the
        keychain.
        """
        held = self._of(at.execution_id)
        fields = {key: value for key, value in auth.items() if key != "type"}
        held.secrets.learn(fields)
        wanted = _asked("auth", "oauth2", fields, held.about, fresh)
        token = await self._get(wanted)
        held.secrets.learn(token)
        return {"type": "bearer", "token": token["access_token"]}

    async def share(self, giver: str, taker: str, value: JSON) -> None:
        """Let another execution open the handles in a value that it is given."""
        if giver not in self._held:
            return
        for name, secret in self._held[giver].secrets.held_in(value):
            await self._sealed.save(taker, name, secret)
            if taker in self._held:
                self._held[taker].secrets.put(name, secret)

    def reveal(self, execution_id: str, value: JSON) -> JSON:
        """Return the value with the secrets of an execution in place of handles."""
        held = self._held.get(execution_id)
        return value if held is None else held.secrets.opening(None).whole(value)

    async def seal_inputs(
        self, execution_id: str, playbook: Playbook, workload: dict[str, JSON]
    ) -> dict[str, JSON]:
        """Return the workload with handles in place of its secret inputs (S-72).

        An empty input stays as it is. Raises ``KeychainError`` for one that is too
        large.
        """
        secrets, sealed = self._held[execution_id].secrets, dict(workload)
        for name in sorted(secret_inputs(playbook) & workload.keys()):
            value = workload[name]
            if value in (None, "", {}) or secrets.open(value) is not value:
                continue
            try:
                _check(value)
            except SecretError as error:
                raise KeychainError(_refusal(f"input '{name}': {error}", [])) from None
            sealed_as = name_for(token_hex(8), execution_id, "")
            await self._keep(execution_id, sealed_as, value)
            sealed[name] = handle(sealed_as)
        return sealed

    async def inherit(self, giver: str, taker: str) -> None:
        """Let a fork open the secrets of its origin; a finished origin has none."""
        for name, secret in (await self._sealed.load(giver)).items():
            if name != KEYCHAIN:
                await self._sealed.save(taker, name, secret)

    def forget(self, execution_id: str) -> None:
        """Forget an execution that has ended and had no secrets."""
        self._held.pop(execution_id, None)

    async def drop(self, execution_id: str) -> None:
        """Delete the secrets of an execution that has ended."""
        self.forget(execution_id)
        await self._sealed.drop(execution_id)

    async def kept(self) -> Sequence[str]:
        """Return executions with sealed secrets, loaded in this process or not."""
        return await self._sealed.kept()

    async def _keep(self, execution_id: str, name: str, value: JSON) -> None:
        self._of(execution_id).secrets.put(name, value)
        await self._sealed.save(execution_id, name, value)

    def _of(self, execution_id: str) -> OpenSecrets:
        """Raise ``SecretError`` for an execution that has ended: it gets no more
        secrets.
        """
        try:
            return self._held[execution_id]
        except KeyError:
            message = f"{execution_id} has ended"
            raise SecretError("secret.sealed", message) from None

    def _hold(
        self,
        execution_id: str,
        secrets: Secrets,
        entries: Sequence[KeychainEntry],
        about: Mapping[str, JSON],
    ) -> Secrets:
        named = {entry.name: entry for entry in entries}
        self._held[execution_id] = OpenSecrets(secrets, named, about)
        return secrets

    async def _get(self, wanted: Wanted) -> JSON:
        try:
            provider = self._providers[wanted.kind]
        except KeyError:
            match = nearest(wanted.kind, self._providers)
            hint = f"; did you mean '{match}'?" if match else ""
            message = f"kind '{wanted.kind:.60}' is not built in, and no enabled "
            message += "plug-in brings it (noetl doctor lists those installed)"
            raise SecretError("secret.wrong", message + hint) from None
        value = await provider.get(wanted)
        _check(value)
        return value


def _wanted(
    entry: KeychainEntry,
    resolved: Mapping[str, JSON],
    about: Mapping[str, JSON],
    *,
    fresh: bool = False,
) -> Wanted:
    try:
        fields = entry.fields.render({"keychain": resolved})
    except TemplateError as error:  # entries see earlier ones, as far as resolved
        raise SecretError("secret.wrong", error.message) from None
    return _asked(entry.name, entry.kind, fields, about, fresh)


def _asked(
    name: str,
    kind: str,
    fields: Mapping[str, JSON],
    about: Mapping[str, JSON],
    fresh: bool,
) -> Wanted:
    """Return the secret that this playbook asks for."""
    return Wanted(name, kind, fields, about.get("folder"), fresh, about.get("path"))


def _check(value: JSON) -> None:
    """Raise ``SecretError`` for a value that cannot be used, or cannot be masked."""
    if value is None or value == {} or (isinstance(value, str) and not value.strip()):
        raise SecretError("secret.missing", "the secret is empty")
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError):
        message = "the secret is neither text nor JSON"
        raise SecretError("secret.wrong", message) from None
    if size > LARGEST:
        message = f"the secret is larger than {LARGEST:,} bytes"
        raise SecretError("secret.wrong", message)


def _sentence(problem: Mapping[str, JSON]) -> str:
    return f"keychain entry '{problem['name']}' ({problem['kind']}): " + str(
        problem["message"]
    )


def _refusal(message: str, entries: list[dict[str, JSON]]) -> dict[str, JSON]:
    return {
        "kind": "keychain.unresolved",
        "message": message,
        "step": None,
        "task": None,
        "entries": entries,
    }


class TaskSecrets:
    """Access to the keychain for tools of a server and for its workers.

    ``find`` returns an execution in the memory of this server.
    """

    def __init__(
        self, keys: Keyring, find: Callable[[str], LoadedExecution | None]
    ) -> None:
        self._keys = keys
        self._find = find

    async def fetch(
        self,
        at: TaskPlace,
        name: str | None,
        provider: str | None = None,
        path: str | None = None,
    ) -> dict[str, JSON]:
        """Fetch as ``Keys.fetch``; literal inputs of the playbook come first."""
        live, task = self._task(at)
        entries = [entry.name for entry in live.playbook.keychain]
        named = secret_named(task, entries, _fixed(live.state), name)
        return await self._keys.fetch(at, named.name, named.provider, named.path)

    async def authorize(
        self, at: TaskPlace, auth: Mapping[str, JSON], *, fresh: bool
    ) -> dict[str, JSON]:
        live, task = self._task(at)
        keychain = live.secrets.keychain
        known = credential_named(task, keychain, _fixed(live.state), auth)
        return await self._keys.authorize(at, known, fresh=fresh)

    def _task(self, at: TaskPlace) -> tuple[LoadedExecution, Task]:
        """Return the task of the playbook. Raises ``SecretError``."""
        live = self._find(at.execution_id)
        if live is None:
            raise SecretError("secret.sealed", f"{at.execution_id} has ended")
        step = live.playbook.steps.get(at.step)
        for task in step.tasks if step is not None else ():
            if task.label == at.task:
                return live, task
        message = f"step '{at.step:.80}' has no task '{at.task:.80}'"
        raise SecretError("secret.denied", message)


def _fixed(state: State) -> dict[str, JSON]:
    return {
        "workload": state.workload,
        "execution_id": state.execution_id,
        "execution": {"started_at": state.began_at},
    }
