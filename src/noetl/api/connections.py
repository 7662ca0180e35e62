"""Open connections: bounded in all and for each address, idle ones make room first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Connection(Protocol):
    def is_busy(self) -> bool:
        """Whether a request on it is being answered."""
        ...

    def drop(self) -> None: ...


class Connections:
    """Admits connections. ``is_shared`` tells addresses that many clients come from,
    such as a proxy's: those have no limit of their own."""

    def __init__(
        self,
        most: int,
        most_of_address: int,
        is_shared: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._is_shared = is_shared
        self._open: dict[str, dict[Connection, None]] = {}
        self._count = 0
        self.refused = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def admit(self, connection: Connection, address: str) -> bool:
        """Whether there is room for it, at need in place of an idle one."""
        own = self._open.get(address, {})
        full = len(own) >= self._most_of_address and not self._is_shared(address)
        if full and not self._drop_idle(address):
            self.refused += 1
            return False
        if self._count >= self._most and not self._drop_any_idle():
            self.refused += 1
            return False
        self._open.setdefault(address, {})[connection] = None
        self._count += 1
        return True

    def forget(self, connection: Connection, address: str) -> None:
        """It is closed; one that was never admitted, or dropped, is not known."""
        own = self._open.get(address, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._open[address]

    def _drop_any_idle(self) -> bool:
        """Addresses with the most connections give way first."""
        most_used = max(self._open, key=lambda address: len(self._open[address]))
        return any(self._drop_idle(each) for each in (most_used, *self._open))

    def _drop_idle(self, address: str) -> bool:
        """Close the oldest connection of this address that is not being answered."""
        for connection in self._open[address]:
            if not connection.is_busy():
                self.forget(connection, address)
                self.dropped += 1
                connection.drop()
                return True
        return False
