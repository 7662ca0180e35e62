"""Secrets of one execution: an argument of evaluations, never part of the state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from noetl.engine.secrets.encodings import as_data, parts
from noetl.engine.secrets.redaction import MASK, MIN_LONG, Redactor
from noetl.engine.tasks.outcome import Failure, Outcome
from noetl.engine.values.references import is_handle, mappings_in
from noetl.templates.evaluation import Stored
from noetl.templates.values import Sealed
from noetl.types import JSON

PUBLIC = frozenset(
    {
        *("type", "token_type", "scope", "audience", "expires_in", "expires_at"),
        *("host", "hostaddr", "port", "database", "dbname", "schema", "sslmode"),
        *("user", "username", "client_id", "url", "token_url", "region"),
        *("grant", "client_auth", "algorithm", "key_id", "issuer", "subject"),
    }
)
"""Fields of a credential with user or host: they are not masked, because masking a host
or user name would spoil results without protecting anything."""


def handle(name: str) -> dict[str, JSON]:
    """Return the handle that log, ``_prev`` and ``ctx`` hold instead of a secret
    (S-41)."""
    return {"secret": name}


def handles_in(value: JSON, secrets: Secrets) -> dict[str, str]:
    """Return handles whose secret is gone, each with its path in the value."""
    found: dict[str, str] = {}
    waiting: list[tuple[str, JSON]] = [("", value)]
    while waiting:
        place, part = waiting.pop()
        if isinstance(part, list):
            part = dict(enumerate(part))
        elif not isinstance(part, dict):
            continue
        if is_handle(part):
            if secrets.open(part) is part:
                found[part["secret"]] = place
            continue
        for key, item in part.items():
            waiting.append((f"{place}.{key}" if place else str(key), item))
    return found


class Secrets:
    """Secrets of one execution. ``keychain`` are the resolved entries by name,
    ``sealed`` the secrets that tasks have fetched, by the name in their handle. With
    ``partial`` the execution may have fetched others. Without any of them it
    ``is_empty``: there is nothing to open or to mask."""

    def __init__(
        self,
        keychain: Mapping[str, JSON] | None = None,
        sealed: Mapping[str, JSON] | None = None,
        *,
        partial: bool = False,
    ) -> None:
        self._partial = partial
        self.is_empty = not partial
        self.keychain: dict[str, JSON] = dict(keychain or {})
        self.sealed: dict[str, JSON] = {}
        self._redactor: Redactor | None = None
        if self.keychain:
            self.learn(list(self.keychain.values()))
        for name, value in (sealed or {}).items():
            self.put(name, value)

    def put(self, name: str, value: JSON) -> None:
        """Keep a secret that a task has fetched, under the name in its handle."""
        self.sealed[name] = value
        self.learn(value)

    def learn(self, value: JSON) -> None:
        """Mask the value from now on; no template can read it."""
        self.is_empty = False
        if self._redactor is None:
            self._redactor = Redactor()
        self._redactor.learn(_texts(value))

    @property
    def names(self) -> Collection[str]:
        """Return the names in the handles of fetched secrets."""
        return self.sealed.keys()

    # -- reading -----------------------------------------------------------------

    def opening(self, stored: Stored | None) -> Stored:
        """Return a reader of values that opens handles, however deep."""
        return _Opening(self, stored)

    def sealing(self, stored: Stored | None) -> Stored:
        """Return a reader of values that leaves handles closed, without text."""
        return _Sealing(self, stored)

    def open(self, value: JSON) -> JSON:
        """Return the secret of a handle; any other value unchanged."""
        if isinstance(value, dict) and len(value) == 1 and "secret" in value:
            name = value["secret"]
            return self.sealed.get(name, value) if isinstance(name, str) else value
        return value

    def held_in(self, value: JSON) -> Iterator[tuple[str, JSON]]:
        """Yield the secrets whose handles are in the value."""
        opened = self.open(value)
        if opened is not value:
            yield value["secret"], opened
        elif isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from self.held_in(item)

    @property
    def hides(self) -> bool:
        """Return whether there is anything to mask."""
        return self._redactor is not None

    # -- masking -----------------------------------------------------------------

    def redact(self, value: JSON, *, short: bool = True) -> JSON:
        if self._redactor is None:
            return value
        return self._redactor.data(value, short=short)

    def redact_text(self, text: str) -> str:
        return text if self._redactor is None else str(self._redactor.report(text))

    def redact_lines(self, text: str) -> str:
        """Return lines that a task has printed, without secrets."""
        return self._redactor.printed(text) if self._redactor else text

    def redact_outcome(self, outcome: Outcome) -> Outcome:
        """Return the outcome as policy, ``_prev``, patches and log see it."""
        if self._redactor is None:
            return outcome
        redactor, error = self._redactor, outcome.error
        try:
            if error is not None:
                error = Failure(
                    error.kind,
                    redactor.report(error.message),
                    error.retryable,
                    redactor.report(error.details),
                )
            return msgspec.structs.replace(
                outcome,
                result=redactor.data(outcome.result),
                error=error,
                helper=_redact_helper(redactor, outcome.helper),
            )
        except RecursionError:
            return Outcome.failed("tool.contract", "the result nests too deep")

    def mask_handles(self, outcome: Outcome) -> Outcome:
        """Mask handles in the outcome of a tool that makes none: a service may have
        learned a handle from a log, and the next template would open it. With
        ``partial`` every mapping of that shape may be a handle."""
        if not self.sealed and not self._partial:
            return outcome
        error = outcome.error
        try:
            if error is not None:
                details = self.without_handles(error.details)
                error = msgspec.structs.replace(error, details=details)
            result = self.without_handles(outcome.result)
        except RecursionError:
            return Outcome.failed("tool.contract", "the result nests too deep")
        return msgspec.structs.replace(outcome, result=result, error=error)

    def without_handles(self, value: JSON) -> JSON:
        """Return the value itself if it holds no handle, else a copy with masks."""
        if any(map(self._may_open, mappings_in(value))):
            return self._masked(value)
        return value

    def _masked(self, value: JSON) -> JSON:
        if self._may_open(value):
            return MASK
        if isinstance(value, dict):
            return {key: self._masked(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._masked(item) for item in value]
        return value

    def _may_open(self, value: JSON) -> bool:
        return self.open(value) is not value or (self._partial and is_handle(value))


class _Opening:
    def __init__(self, secrets: Secrets, stored: Stored | None) -> None:
        self._open = secrets.open
        self._stored = stored

    def load(self, value: JSON) -> JSON:
        return self._open(value if self._stored is None else self._stored.load(value))

    def whole(self, value: JSON) -> JSON:
        return self._each(value if self._stored is None else self._stored.whole(value))

    def _each(self, value: JSON) -> JSON:
        opened = self._open(value)
        if opened is not value:
            return opened
        if isinstance(value, dict):
            items = {key: self._each(item) for key, item in value.items()}
            return value if all(items[key] is value[key] for key in items) else items
        if isinstance(value, list):
            parts = [self._each(item) for item in value]
            same = all(new is old for new, old in zip(parts, value, strict=True))
            return value if same else parts
        return value


class _Sealing:
    def __init__(self, secrets: Secrets, stored: Stored | None) -> None:
        self._open = secrets.open
        self._stored = stored

    def load(self, value: JSON) -> JSON:
        return value if self._stored is None else self._stored.load(value)

    def whole(self, value: JSON) -> JSON:
        value = value if self._stored is None else self._stored.whole(value)
        return value if self._open(value) is value else Sealed(value)


def _redact_helper(redactor: Redactor, helper: dict[str, JSON]) -> dict[str, JSON]:
    """Redact the values only: the names of the members come from the tool."""
    return {name: redactor.report(value) for name, value in helper.items()}


def _texts(value: JSON) -> Iterator[str]:
    """Yield the secret texts of a value: all, except a credential's public fields.

    Many protocols send user and password as one text, and a text may be taken apart.
    Short members of a JSON text are not masked: they are settings more often than
    secrets.
    """
    if isinstance(value, str):
        yield value
        yield from parts(value)
        yield from (text for text in _texts(as_data(value)) if len(text) >= MIN_LONG)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        for key, item in value.items():
            if key not in PUBLIC:
                yield from _texts(item)
        user = value.get("username", value.get("user"))
        together = f"{user}:{value.get('password')}"
        if user and value.get("password") and len(together) >= MIN_LONG:
            yield together
