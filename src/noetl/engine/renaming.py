"""Events of one execution as those of another: ids change, what was done does not.

Names that the engine makes begin with the id of their execution. They are renamed, so
that the runs that are open can go on. Values that tools and templates have made stay as
they are, also if the old id is in them, and so does ``action_id``: it is the name under
which the effect was made.
"""

from __future__ import annotations

import msgspec

from noetl.engine.events import Event
from noetl.engine.references import is_reference
from noetl.types import JSON

_LOG = "log:"
_MARK = b'"key":"log:'
_encode = msgspec.json.Encoder().encode


class Renaming:
    """From the id ``old`` to the id ``new``."""

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def name(self, name: str) -> str:
        """A name that was derived from the old id; any other is given as it is."""
        rest = name[len(self._old) :]
        if name.startswith(self._old) and (not rest or rest[0] in "-."):
            return self._new + rest
        return name

    def event(self, event: Event) -> Event:
        return msgspec.structs.replace(
            event,
            event_id=f"{self._new}.{event.seq}",
            execution_id=self._new,
            entity_id=self.name(event.entity_id),
            parent_id=self._optional(event.parent_id),
            step_run_id=self._optional(event.step_run_id),
            iteration_id=self._optional(event.iteration_id),
            task_run_id=self._optional(event.task_run_id),
            payload=self._payload(event.payload),
        )

    def _optional(self, name: str | None) -> str | None:
        return None if name is None else self.name(name)

    def _payload(self, payload: dict[str, JSON]) -> dict[str, JSON]:
        changed = {
            key: _MEMBERS[key](self, payload[key]) for key in payload.keys() & _MEMBERS
        }
        payload = {**payload, **changed}
        if _MARK in _encode(payload):
            payload = {key: self._references(value) for key, value in payload.items()}
        return payload

    def _references(self, value: JSON) -> JSON:
        """Results of a loop are read from the log that they are in: now this one."""
        if is_reference(value):
            key = value["key"]
            if key.startswith(_LOG):
                return {**value, "key": _LOG + self.name(key.removeprefix(_LOG))}
            return value
        if isinstance(value, dict):
            return {key: self._references(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._references(item) for item in value]
        return value

    def _each(self, names: JSON) -> JSON:
        return [self.name(name) for name in names]

    def _keys(self, mapping: JSON) -> JSON:
        return {self.name(key): value for key, value in mapping.items()}

    def _token(self, token: JSON) -> JSON:
        return {**token, "token_id": self.name(token["token_id"])}

    def _tokens(self, tokens: JSON) -> JSON:
        return [self._token(token) for token in tokens]

    def _again(self, again: JSON) -> JSON:
        tokens = self._tokens(again)
        return [{**token, "failed": self.name(token["failed"])} for token in tokens]

    def _writer(self, refused: JSON) -> JSON:
        return {**refused, "by": self.name(refused["by"])}

    def _error(self, error: JSON) -> JSON:
        if not isinstance(error, dict) or "iteration_id" not in error:
            return error
        return {**error, "iteration_id": self.name(error["iteration_id"])}


# The members of payloads that hold names of ours.
_MEMBERS = {
    "tokens": Renaming._each,
    "token": Renaming._token,
    "token_id": Renaming.name,
    "fired": Renaming._tokens,
    "again": Renaming._again,
    "refused": Renaming._writer,
    "deadlines": Renaming._keys,
    "error": Renaming._error,
}
