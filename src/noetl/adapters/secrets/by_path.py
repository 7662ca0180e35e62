"""Secrets by provider and path, and credentials of several fields."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.access.secrets import redirections
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import SecretError
from noetl.ports import SecretProvider, Wanted
from noetl.types import JSON


def text_field(wanted: Wanted, name: str, default: str | None = None) -> str:
    """Return a field that must be text. Raises ``SecretError`` if it is missing."""
    value = wanted.fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not value:
        message = f"kind {wanted.kind} needs '{name}', as text"
        raise SecretError("secret.wrong", message)
    return value


def chosen(wanted: Wanted, value: JSON, where: str) -> JSON:
    """Return the value, or the part that ``format`` and ``field`` choose."""
    form, field = wanted.fields.get("format"), wanted.fields.get("field")
    if form not in (None, "json", "text"):
        raise SecretError("secret.wrong", f"format is {form!r:.40}, not json or text")
    if isinstance(value, str) and (form == "json" or field is not None):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            raise SecretError("secret.wrong", f"{where} is not JSON") from None
    if field is None:
        return value
    if not isinstance(value, Mapping) or field not in value:
        known = ", ".join(value) if isinstance(value, Mapping) else "none"
        message = f"{where} has no field '{field}' (fields: {known})"
        raise SecretError("secret.missing", message)
    return value[field]


DEFAULT = "stored"
_ABOUT = frozenset({"name", "kind", "provider", "path"})
_OPTIONS = {
    "postgres_credential": "--field host=… --field user=… --field password",
    "http_credential": "--field username=… --field password (or --field token)",
    "oauth2": "--field token_url=… --field client_id=… --field client_secret",
}


def credential_options(kind: str) -> str:
    """Return the options of ``noetl keychain set`` that store a credential."""
    return f"--kind {kind} {_OPTIONS[kind]}"


async def ask_stored(manager: SecretManager, wanted: Wanted) -> JSON:
    """Ask for a stored credential. The error for a missing one, which ends with the
    command that stores it, also has the options of that command."""
    try:
        return await manager.ask(wanted)
    except SecretError as error:
        if error.kind != "secret.missing" or "provider" in wanted.fields:
            raise
        message = f"{error.message} {credential_options(wanted.kind)}"
        raise SecretError(error.kind, message) from None


class SecretManager:
    """Reads from the provider that an entry names, by default the stored keychain."""

    def __init__(self, providers: Mapping[str, SecretProvider]) -> None:
        self._providers = providers

    async def get(self, wanted: Wanted) -> JSON:
        value = await self.ask(wanted)
        return chosen(wanted, value, f"'{wanted.name}'")

    async def ask(self, wanted: Wanted) -> JSON:
        name = wanted.fields.get("provider") or DEFAULT
        provider = self._providers.get(name) if isinstance(name, str) else None
        if provider is None or provider is self:
            hint = did_you_mean(str(name), self._providers) or ""
            message = f"unknown provider '{name!s:.40}'; {hint}"
            raise SecretError("secret.wrong", message)
        path = wanted.fields.get("path") or wanted.name
        fields = {**wanted.fields, "path": path}
        # These fields are for this class, not for the provider.
        for key in ("provider", "format", "field"):
            fields.pop(key, None)
        return await provider.get(
            msgspec.structs.replace(wanted, kind=name, fields=fields)
        )


class CredentialProvider:
    """Merges a stored mapping with the fields of the entry, which take precedence.

    With ``fixed`` these fields cannot change where the stored credential is sent.
    """

    def __init__(self, manager: SecretManager, *, fixed: bool = False) -> None:
        self._manager = manager
        self._fixed = fixed

    async def get(self, wanted: Wanted) -> JSON:
        own = {k: v for k, v in wanted.fields.items() if k not in _ABOUT}
        try:
            stored = await ask_stored(self._manager, wanted)
        except SecretError as error:
            named = {"provider", "path"} & wanted.fields.keys()
            if error.kind == "secret.missing" and own and not named:
                return own
            raise
        if not isinstance(stored, Mapping):
            message = (
                f"'{wanted.name}' is a single value, but {wanted.kind} needs fields; "
                f"store it with: noetl keychain set {wanted.name} "
                f"{credential_options(wanted.kind)}"
            )
            raise SecretError("secret.wrong", message)
        if self._fixed:
            refuse_redirection(wanted, own, stored)
        return {**stored, **own}


def refuse_redirection(
    wanted: Wanted, own: Mapping[str, JSON], stored: Mapping[str, JSON]
) -> None:
    """Raise ``SecretError`` if the entry's address is not the stored one."""
    if wrong := redirections(own, stored):
        fields = ", ".join(f"'{each}'" for each in wrong)
        message = (
            f"'{wanted.name}' is a stored credential, and the playbook cannot change "
            f"where it is sent: leave out {fields}, or store them with the credential"
        )
        raise SecretError("secret.denied", message)
