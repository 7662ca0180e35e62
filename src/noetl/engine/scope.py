"""The names that templates see."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.engine.references import Values
from noetl.types import JSON


class Scope(dict[str, JSON]):
    """Namespaces by name; a bare name is looked up in args, ctx, iter, workload (C-34).

    A plain dictionary on the fast path: only a name that is no namespace costs more.
    ``stored`` has what is stored elsewhere, where something is (S-48).
    """

    stored: Values | None = None

    def __missing__(self, name: str) -> JSON:
        for namespace in ("args", "ctx", "iter", "workload"):
            values = self.get(namespace)
            if isinstance(values, Mapping) and name in values:
                return values[name]
        raise KeyError(name)


def iteration_scope(
    iterator: str, element: JSON, index: int, parent: JSON | None
) -> dict[str, JSON]:
    """A fresh ``iter``: the element, its index, and the enclosing iteration."""
    scope: dict[str, JSON] = {iterator: element, "index": index}
    if parent is not None:
        scope["parent"] = parent
    return scope
