"""Scopes of templates, and patches of ``ctx`` and ``iter``, never applied in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from noetl.dsl.node import Location, shorten
from noetl.engine.events import Event, Judged
from noetl.engine.secrets.handles import Secrets
from noetl.errors import TemplateError
from noetl.templates.errors import LeafError
from noetl.templates.evaluation import Decision, Stored
from noetl.types import JSON

NAME_CHARS = 200
"""Characters of a name in ``undefined``."""


def apply_patch(base: Mapping[str, JSON], patch: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return ``base`` with the patch applied; unchanged values are shared.

    A plain key replaces, a dotted one sets a nested path and creates the mappings on
    its way. Null is a value like any other (S-19).
    """
    patched = dict(base)
    for key, value in patch.items():
        if "." in key and key not in base:
            _set_path(patched, key.split("."), value)
        else:
            patched[key] = value
    return patched


def _set_path(target: dict[str, JSON], path: list[str], value: JSON) -> None:
    for part in path[:-1]:
        inner = target.get(part)
        target[part] = dict(inner) if isinstance(inner, Mapping) else {}
        target = target[part]
    target[path[-1]] = value


def unfold(
    base: Mapping[str, JSON], patch: Mapping[str, JSON], load: Callable[[JSON], JSON]
) -> dict[str, JSON]:
    """Return the patch with whole values for keys that lead into loaded ones.

    Where the path of a dotted key passes a value that ``load`` changes, the patch must
    hold the changed value itself.
    """
    unfolded: dict[str, JSON] = {}
    for key, value in patch.items():
        path = key.split(".")
        place = None if "." not in key or key in base else len(path) - 1
        while place and not _is_stored(base, path[:place], load):
            place -= 1
        if not place:
            unfolded[key] = value
            continue
        owner = ".".join(path[:place])  # other keys may lead into it as well
        inside = {"": unfolded.get(owner, load(read_path(base, owner)))}
        _set_path(inside, ["", *path[place:]], value)
        unfolded[owner] = inside[""]
    return unfolded


def _is_stored(
    base: Mapping[str, JSON], path: list[str], load: Callable[[JSON], JSON]
) -> bool:
    value = read_path(base, ".".join(path))
    return load(value) is not value


def read_path(base: Mapping[str, JSON], key: str) -> JSON:
    """Return the current value at a key of a patch, or None if there is none."""
    if key in base:
        return base[key]
    value: JSON = base
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def is_equal(one: JSON, other: JSON) -> bool:
    """Compare as the log writes them: 1, 1.0 and true are three values."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(
        other, order="sorted"
    )


class Scope(dict[str, JSON]):
    """Namespaces by name; a bare name is looked up in args, ctx, iter, workload (C-34).

    A plain dictionary on the fast path: only a name that is not a namespace costs more.
    ``stored`` loads values that are stored elsewhere, or is None (S-48). ``decision``
    is the shared budget of all templates that read this scope.
    """

    stored: Stored | None = None
    decision: Decision | None = None
    _secrets: Secrets | None = None

    def hold(self, secrets: Secrets, stored: Stored | None) -> None:
        """Let templates read stored values and open handles of secrets."""
        self.stored = stored
        if secrets.keychain or secrets.sealed:
            self._secrets, self._values = secrets, stored
        if secrets.sealed:
            self.stored = secrets.opening(stored)

    def recorded(self) -> Scope:
        """Return the scope for values that will be in the log: it has no secrets
        (S-67)."""
        if self._secrets is None:
            return self
        scope = Scope(self)
        scope.decision = self.decision
        scope["keychain"] = {}
        scope.stored = self._secrets.sealing(self._values)
        return scope

    def undefined_names(self) -> dict[str, str | None]:
        """Return the names that conditions read and nothing gave, as written, each
        with the nearest name in its place, or None (S-73).

        Where templates open sealed values, a near name could be inside a secret.
        """
        if self.decision is None or not self.decision.missing:
            return {}
        secrets, found = self._secrets, dict[str, str | None]()
        for each in self.decision.missing:
            nearest = None
            if secrets is None or not secrets.sealed:
                nearest = each.nearest()
            if nearest is not None:
                nearest = shorten(nearest, NAME_CHARS)
            found[shorten(each.path, NAME_CHARS)] = nearest
        return found

    def describe(self, error: TemplateError) -> str:
        """Return the message of a failed template, without secrets."""
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


def note_undefined(payload: Judged, names: Mapping[str, str | None]) -> None:
    """Write the names of ``undefined_names`` into a payload."""
    if not names:
        return
    payload["undefined"] = list(names)
    nearest = {path: name for path, name in names.items() if name is not None}
    if nearest:
        payload["nearest"] = nearest


def place_of(at: Location | None, error: TemplateError) -> tuple[int, int] | None:
    """Return line and column of the template that failed in the value at ``at``."""
    if at is None:
        return None
    for part in error.path if isinstance(error, LeafError) else ():
        if isinstance(part, str) and part not in at:
            break
        at = at[part]
    return at.mark


def iteration_scope(
    iterator: str, element: JSON, index: int, parent: JSON | None
) -> dict[str, JSON]:
    """Return a new ``iter``: the element, its index, and the enclosing iteration."""
    scope: dict[str, JSON] = {iterator: element, "index": index}
    if parent is not None:
        scope["parent"] = parent
    return scope


def view(event: Event) -> dict[str, JSON]:
    """Return a boundary event as templates see it, with the names of all dialects
    (C-05)."""
    return {
        "name": event.name,
        "event_type": event.name,
        "status": event.status,
        "entity_type": event.entity_type,
        "entity": event.entity_type,
        "entity_id": event.entity_id,
        "step": event.step,
        "step_run_id": event.step_run_id,
        "timestamp": event.timestamp,
        "payload": event.payload,
        "data": event.payload,
    }
