"""Slots of concurrency keys in memory: who has one, and who waits for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.adapters.stores.rules import OVER, is_slot_free, next_to_admit
from noetl.ports import ConcurrencySlot, QueuedExecution, Transition


class ConcurrencySlots:
    """The rows of all keys; ``is_over`` tells whether an execution has ended."""

    def __init__(self, is_over: Callable[[str], bool]) -> None:
        self._is_over = is_over
        self._slots: dict[str, dict[str, ConcurrencySlot]] = {}

    def queue(self, key: str) -> list[QueuedExecution]:
        """Return the open executions of a key in the order of their arrival."""
        return [
            QueuedExecution(name, slot.limit, slot.queued)
            for name, slot in self._slots.get(key, {}).items()
            if not self._is_over(name)
        ]

    def queues(self) -> Iterator[tuple[str, list[QueuedExecution]]]:
        """Yield each key with its open executions."""
        for key in self._slots:
            if queue := self.queue(key):
                yield key, queue

    def queued(self) -> set[str]:
        """Return the executions that wait for a slot."""
        rows = (row for slots in self._slots.values() for row in slots.items())
        return {name for name, slot in rows if slot.queued}

    def slot_of(self, execution_id: str) -> ConcurrencySlot | None:
        slots = [held.get(execution_id) for held in self._slots.values()]
        return next(filter(None, slots), None)

    def is_free(self, transition: Transition) -> bool:
        assert transition.slot is not None
        return is_slot_free(transition, self._front(transition.slot.key))

    def change(self, transition: Transition, slot: ConcurrencySlot) -> str | None:
        """Write a row; return the execution that may begin now, if there is one."""
        slots = self._slots.setdefault(slot.key, {})
        if transition.summary.status in OVER:
            slots.pop(transition.execution_id, None)
        else:
            slots[transition.execution_id] = slot
        return next_to_admit(self._front(slot.key))

    def _front(self, key: str) -> list[QueuedExecution]:
        queue = self.queue(key)
        waiting = [each for each in queue if each.queued]
        return [each for each in queue if not each.queued] + waiting[:1]
