"""Changes production code for the time of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patch:
    """Replaces attributes, and puts them back at the end of the context."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or a class."""
        before = vars(owner).get(name, _ABSENT)

        def undo() -> None:
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        setattr(owner, name, value)
        self._undo.append(undo)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function by what ``make`` returns for it."""
        self.set(owner, name, make(getattr(owner, name)))

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()
