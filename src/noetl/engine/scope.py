"""The names that templates see."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.engine.secrets import Secrets
from noetl.errors import TemplateError
from noetl.templates.evaluation import Decision, Stored
from noetl.types import JSON


class Scope(dict[str, JSON]):
    """Namespaces by name; a bare name is looked up in args, ctx, iter, workload (C-34).

    A plain dictionary on the fast path: only a name that is no namespace costs more.
    ``stored`` has what is stored elsewhere, where something is (S-48). ``decision`` is
    what all templates that read this scope may take together.
    """

    stored: Stored | None = None
    decision: Decision | None = None
    _secrets: Secrets | None = None

    def hold(self, secrets: Secrets, stored: Stored | None) -> None:
        """Let templates read ``keychain`` and what handles stand for."""
        self["keychain"] = secrets.keychain
        self.stored = stored
        if secrets.keychain or secrets.handles:
            self._secrets, self._values = secrets, stored
        if secrets.handles:
            self.stored = secrets.opening(stored)

    def recorded(self) -> Scope:
        """The same names for what will be in the log: no secret can be read (S-67)."""
        if self._secrets is None:
            return self
        scope = Scope(self)
        scope.decision = self.decision
        scope["keychain"] = {}
        scope.stored = self._secrets.sealing(self._values)
        return scope

    def told(self, error: TemplateError) -> str:
        """What a template said when it failed, without the secrets it may quote."""
        if self._secrets is None:
            return error.message
        return self._secrets.redact_text(error.message)

    def __missing__(self, name: str) -> JSON:
        for namespace in ("args", "ctx", "iter", "workload"):
            values = self.get(namespace)
            if self.stored is not None:
                values = self.stored.load(values)
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
