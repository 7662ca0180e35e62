"""The executions that a process has in memory, each as its log adds up to it."""

from __future__ import annotations

from noetl.engine.reports import OutOfOrder
from noetl.engine.secrets import Secrets
from noetl.engine.state import State
from noetl.errors import StoreError
from noetl.ports import Catalog, Store
from noetl.runtime.keychain import Keyring
from noetl.runtime.live import Live, fold


class Residents:
    """``kept`` are those that somebody asked for: they stay when they are over."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self._live: dict[str, Live] = {}

    def state(self, execution_id: str) -> State:
        return self.resident(execution_id).state

    def resident(self, execution_id: str) -> Live:
        """Raises ``OutOfOrder`` for one that is not here."""
        live = self._live.get(execution_id)
        if live is None:
            raise OutOfOrder(f"execution {execution_id} is not open here")
        return live

    def live(self, execution_id: str) -> Live | None:
        return self._live.get(execution_id)

    def is_loaded(self, execution_id: str) -> bool:
        return execution_id in self._live

    def is_at(self, execution_id: str, seq: int | None) -> bool:
        """Whether it is known here up to there, and nothing of it is being decided."""
        live = self._live.get(execution_id)
        return live is not None and not live.busy and live.state.seq == seq

    def count_loaded(self) -> float:
        return float(len(self._live))

    def running(self) -> list[str]:
        """What may still start something."""
        return [
            name
            for name, live in self._live.items()
            if live.state.status == "running" and not live.state.finished
        ]

    def forget(self, execution_id: str) -> None:
        """Of what is over, nothing need stay; except what somebody asked for."""
        if execution_id not in self.kept:
            self._live.pop(execution_id, None)

    def drop(self, execution_id: str) -> None:
        self._live.pop(execution_id, None)


async def read_live(
    store: Store, catalog: Catalog, keys: Keyring, execution_id: str
) -> Live:
    """An execution from its log. Raises ``StoreError`` (``store.missing``)."""
    first = await store.read(execution_id, limit=1)
    if not first:
        message = f"there is no execution {execution_id}"
        raise StoreError(message, "store.missing")
    about = first[0].payload["playbook"]
    playbook = await catalog.pinned(about)
    state = await fold(store, execution_id)
    secrets = Secrets()
    if not state.finished:
        secrets = await keys.open(execution_id, playbook.keychain, about)
    return Live.of(playbook, state, about, secrets)
