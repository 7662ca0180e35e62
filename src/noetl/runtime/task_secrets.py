"""Secrets that tasks ask for while a workflow runs: only what their playbook names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from noetl.dsl.model import Task
from noetl.engine.secret_tasks import credential_named, secret_named
from noetl.engine.state import State
from noetl.errors import SecretError
from noetl.ports import TaskPlace
from noetl.runtime.keychain import Keyring
from noetl.runtime.live import Live
from noetl.types import JSON


class TaskSecrets:
    """The door to the keychain for tools of a server and for its workers.

    ``find`` gives an execution that this server has in memory.
    """

    def __init__(self, keys: Keyring, find: Callable[[str], Live | None]) -> None:
        self._keys = keys
        self._find = find

    async def fetch(
        self,
        at: TaskPlace,
        name: str | None,
        provider: str | None = None,
        path: str | None = None,
    ) -> dict[str, JSON]:
        """As ``Keys.fetch``. Where the playbook names the secret by itself, the other
        arguments do not matter."""
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

    def _task(self, at: TaskPlace) -> tuple[Live, Task]:
        """Raises ``SecretError``."""
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
