"""What a name or key that does not exist evaluates to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.errors import TemplateError
from noetl.templates import faults
from noetl.types import JSON


class Undefined:
    """A value that is not there: falsy, empty, equal only to another one.

    ``path`` is the access as written (``ctx.order.id``); ``owner``, ``key`` and
    ``container`` say where it broke off and are read only to explain a failure.
    """

    __slots__ = ("container", "key", "owner", "path")

    def __init__(
        self, path: str, owner: str | None, key: JSON, container: JSON
    ) -> None:
        self.path = path
        self.owner = owner
        self.key = key
        self.container = container

    def further(self, path: str) -> Undefined:
        """What an access on this value gives: undefined for the same reason."""
        return type(self)(path, self.owner, self.key, self.container)

    def used(self) -> Undefined:
        """What arithmetic with this value gives (S-30)."""
        return self

    def error(self) -> TemplateError:
        """The failure to raise where an undefined value cannot be used."""
        reason, hint = self._explain()
        return faults.undefined(f"{self.path} is undefined: {reason}", hint)

    def _explain(self) -> tuple[str, str | None]:
        container, key, owner = self.container, self.key, self.owner
        if owner is None:
            if not isinstance(container, Mapping):
                return str(container), None
            hint = faults.nearest(str(key), container) or _offer(str(key))
            return f"nothing here is named {key!r}", hint
        if isinstance(container, dict) and isinstance(key, str):
            return f"{owner} has no key {key!r}", faults.nearest(key, container)
        if isinstance(container, list | str) and isinstance(key, int):
            return f"{owner} has {len(container)} items, no item {key}", None
        if isinstance(key, str | int):
            return f"{owner} is {faults.kind_of(container)}, it has no {key!r}", None
        return f"{owner} has no such item", None

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[JSON]:
        return iter(())

    def __str__(self) -> str:
        return ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undefined)

    def __hash__(self) -> int:
        return hash(Undefined)

    def __repr__(self) -> str:
        return f"Undefined({self.path})"


class StrictUndefined(Undefined):
    """An undefined value that may be passed on and asked about, but not used (S-31)."""

    __slots__ = ()

    def used(self) -> Undefined:
        raise self.error()

    def __bool__(self) -> bool:
        raise self.error()

    def __len__(self) -> int:
        raise self.error()

    def __iter__(self) -> Iterator[JSON]:
        raise self.error()

    def __str__(self) -> str:
        raise self.error()

    def __eq__(self, other: object) -> bool:
        raise self.error()

    def __hash__(self) -> int:
        raise self.error()


_INSTEAD = {
    "now": "use execution.started_at or event.timestamp: a guard must give the same "
    "answer when it is replayed",
    "random": "templates must give the same answer when they are replayed",
    "dict": "write a mapping as {'key': value}",
}
_INSTEAD |= dict.fromkeys(("utcnow", "today", "time", "date"), _INSTEAD["now"])


def _offer(name: str) -> str | None:
    return _INSTEAD.get(name)
