"""Undefined: value of a name or key that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.errors import TemplateError
from noetl.templates import errors
from noetl.types import JSON

ITEM = "an item"
"""Owner of the attributes that a filter reads from the items of a list."""


class Undefined:
    """Missing value: falsy, empty, equal only to another undefined value.

    ``path`` is the access as written (``ctx.order.id``); ``owner``, ``key`` and
    ``container`` describe the missing part and are read only to explain a failure.
    """

    __slots__ = ("container", "key", "owner", "path")

    def __init__(
        self, path: str, owner: str | None, key: JSON, container: JSON
    ) -> None:
        self.path = path
        self.owner = owner
        self.key = key
        self.container = container

    @property
    def is_name(self) -> bool:
        """False for the result of an expression, such as an ``if`` without else; for
        attributes of items, of which a filter reads many; and for parts of an outcome
        that are null, such as ``outcome.error.kind`` after a success."""
        if self.owner is None:
            return isinstance(self.container, Mapping)
        if self.container is None and self.path.startswith("outcome."):
            return False
        return self.owner != ITEM

    def is_as(self, other: Undefined) -> bool:
        """Return whether the same part is missing."""
        return self.container is other.container and self.key == other.key

    def nearest(self) -> str | None:
        """Return the existing name most like the missing one. Names of secrets are
        not quoted."""
        is_secret = self.path.startswith("keychain")
        if is_secret or not isinstance(self.key, str):
            return None
        if not isinstance(self.container, Mapping):
            return None
        return errors.closest(self.key, self.container)

    def further(self, path: str) -> Undefined:
        """Return the result of an access on this value: undefined for the same
        reason."""
        return type(self)(path, self.owner, self.key, self.container)

    def used(self) -> Undefined:
        """Return the result of arithmetic with this value (S-30)."""
        return self

    def error(self) -> TemplateError:
        """Return the error for a use that requires a defined value."""
        reason, hint = self._explain()
        return errors.undefined(f"{self.path} is undefined: {reason}", hint)

    def _explain(self) -> tuple[str, str | None]:
        container, key, owner = self.container, self.key, self.owner
        if owner is None:
            if not isinstance(container, Mapping):
                return str(container), None
            hint = errors.nearest(str(key), container) or _offer(str(key))
            return f"unknown name {key!r}", hint
        if isinstance(container, dict) and isinstance(key, str):
            return f"{owner} has no key {key!r}", errors.nearest(key, container)
        if isinstance(container, list | str) and isinstance(key, int):
            return f"{owner} has {len(container)} items, no item {key}", None
        if isinstance(key, str | int):
            return f"{owner} is {errors.kind_of(container)}, it has no {key!r}", None
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
    """Undefined value that may be passed on and tested, but not used (S-31)."""

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
