"""A plain value → a definition, or the member that does not fit and what was meant."""

from __future__ import annotations

import re

import msgspec

from noetl.dsl.diagnostics import did_you_mean
from noetl.triggers.definition import (
    Definition,
    Finished,
    Part,
    Places,
    Schedule,
    Webhook,
)
from noetl.triggers.inputs import TriggerError
from noetl.types import JSON

_PARTS: dict[str, type[Part]] = {
    "webhook": Webhook,
    "schedule": Schedule,
    "finished": Finished,
    "concurrency": Places,
}
_PLACE = re.compile(r" - at `\$\.?([^`]*)`")
_MISSING = re.compile(r"missing required field `([^`]*)`")


def read_definition(document: JSON) -> Definition:
    """Raises ``TriggerError``."""
    if not isinstance(document, dict):
        message = "a trigger is a mapping with name, playbook and what starts it"
        raise TriggerError("", message)
    _check_names(document, Definition, "")
    for name, part in _PARTS.items():
        inner = document.get(name)
        if isinstance(inner, dict):
            _check_names(inner, part, f"{name}.")
    try:
        return msgspec.convert(document, Definition)
    except msgspec.ValidationError as error:
        raise _explained(str(error)) from None


def _check_names(found: dict[str, JSON], part: type[Part], place: str) -> None:
    known = part.__struct_fields__
    for name in found:
        if name not in known:
            message = f"'{name[:40]}' is no member of a trigger"
            raise TriggerError(f"{place}{name}", message, did_you_mean(name, known))


def _explained(text: str) -> TriggerError:
    place = _PLACE.search(text)
    path = place[1] if place else ""
    if missing := _MISSING.search(text):
        path = f"{path}.{missing[1]}" if path else missing[1]
        return TriggerError(path, f"'{path}' is missing")
    message = _PLACE.sub("", text)
    hint = None
    if path == "name":
        message = "a name has lower-case letters, digits, '.', '_' and '-', at most 63"
        hint = "write it as nightly-orders"
    return TriggerError(path, message[:1].lower() + message[1:], hint)
