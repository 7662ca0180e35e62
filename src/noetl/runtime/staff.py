"""The workers of a process that decides, too."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.runtime.dispatch import Worker


class Staff:
    def __init__(self) -> None:
        self._workers: list[Worker] = []

    def employ(self, worker: Worker) -> None:
        self._workers.append(worker)

    def find_free(self) -> tuple[Worker, str] | None:
        """One that keeps a slot free from now on, and the owner of what it gets."""
        for worker in self._workers:
            owner = worker.reserve()
            if owner is not None:
                return worker, owner
        return None

    def revoke(self, commands: Sequence[str]) -> None:
        """These are over: stop what still runs of them."""
        for worker in self._workers:
            worker.revoke(commands)

    def stop(self, execution_id: str) -> None:
        """The execution is cancelled: stop its tools."""
        for worker in self._workers:
            worker.stop(execution_id)
