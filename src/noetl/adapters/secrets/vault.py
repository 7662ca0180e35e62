"""Secrets of HashiCorp Vault or OpenBao, by a token or by a login of the host."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.adapters.secrets.by_path import chosen, text_field
from noetl.adapters.secrets.http import ask
from noetl.errors import SecretError
from noetl.ports import Wanted
from noetl.types import JSON

SERVICE_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
LOGINS = ("token", "approle", "kubernetes")
_MAX_BYTES = 64 * 1024
_RENEW_AT = 2 / 3
"""The part of its lifetime after which a token is renewed."""


class Access(msgspec.Struct, frozen=True):
    """Where a vault is and how to log in; ``role`` is AppRole's id of a role."""

    address: str
    namespace: str | None
    login: str
    mount: str
    role: str
    secret_file: str | None

    def url(self, path: str) -> str:
        return f"{self.address.rstrip('/')}/v1/{path}"

    def headers(self, token: str | None = None) -> dict[str, str]:
        headers = {"X-Vault-Request": "true"}
        if token is not None:
            headers["X-Vault-Token"] = token
        if self.namespace:
            headers["X-Vault-Namespace"] = self.namespace
        return headers


class Login(msgspec.Struct, frozen=True):
    """A token from a login; ``renew_at`` and ``ends`` are on the provider's clock."""

    token: str
    is_renewable: bool
    renew_at: float
    ends: float

    def __repr__(self) -> str:
        return "Login()"


class VaultProvider:
    """Logs in when a secret is first asked for, and renews its token in time.

    A token that was revoked is replaced by another login, once for a request.
    """

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = environ
        self._now = now
        self._logins: dict[Access, Login] = {}
        self._turns: dict[Access, asyncio.Lock] = {}

    async def get(self, wanted: Wanted) -> JSON:
        path = text_field(wanted, "path", wanted.name).strip("/")
        access = self._access(wanted)
        try:
            answer = await self._read(access, path)
        except SecretError as error:
            if error.kind != "secret.missing" or "404" not in error.message:
                raise
            message = f"{error.message}; for the KV store, version 2, write 'data' "
            message += "into the path: secret/data/app"
            raise SecretError(error.kind, message) from None
        return chosen(wanted, _data(answer), f"vault's {path}")

    async def _read(self, access: Access, path: str) -> Mapping[str, JSON]:
        if access.login == "token":
            return await self._ask("GET", access, path, self._token())
        login = await self._login(access)
        try:
            return await self._ask("GET", access, path, login.token)
        except SecretError as error:
            if error.kind != "secret.denied" or await self._is_valid(access, login):
                raise
        return await self._ask("GET", access, path, (await self._login(access)).token)

    async def _login(self, access: Access) -> Login:
        """Return a valid login; one request renews it while others wait."""
        async with self._turns.setdefault(access, asyncio.Lock()):
            known, now = self._logins.get(access), self._now()
            if known is not None and now < known.renew_at:
                return known
            if known is not None and known.is_renewable and now < known.ends:
                try:
                    path = "auth/token/renew-self"
                    answer = await self._ask("POST", access, path, known.token, {})
                    return self._keep(access, answer)
                except SecretError as error:
                    if error.retryable:  # the token lasts a while yet
                        return known
            body = await asyncio.to_thread(self._credential, access)
            path = f"auth/{access.mount}/login"
            return self._keep(access, await self._ask("POST", access, path, None, body))

    def _keep(self, access: Access, answer: Mapping[str, JSON]) -> Login:
        auth = answer.get("auth")
        token = auth.get("client_token") if isinstance(auth, Mapping) else None
        if not isinstance(auth, Mapping) or not isinstance(token, str) or not token:
            message = f"vault's login by {access.login} returned no token"
            raise SecretError("secret.wrong", message)
        seconds = auth.get("lease_duration")
        lasts = float(seconds) if isinstance(seconds, int | float) else 0.0
        now = self._now()
        ends = now + lasts if lasts > 0 else float("inf")
        renew_at = now + lasts * _RENEW_AT if lasts > 0 else ends
        login = Login(token, auth.get("renewable") is True, renew_at, ends)
        self._logins[access] = login
        return login

    async def _is_valid(self, access: Access, login: Login) -> bool:
        """Return False, and forget the login, if vault has revoked its token.

        A path that a policy denies must not lead to another login each time.
        """
        try:
            await self._ask("GET", access, "auth/token/lookup-self", login.token)
        except SecretError as error:
            if error.kind != "secret.denied":
                raise
            if self._logins.get(access) is login:
                del self._logins[access]
            return False
        return True

    async def _ask(
        self,
        method: str,
        access: Access,
        path: str,
        token: str | None,
        body: Mapping[str, str] | None = None,
    ) -> Mapping[str, JSON]:
        options: dict[str, Any] = {} if body is None else {"json": body}
        headers = access.headers(token)
        url = access.url(path)
        found: Mapping[str, JSON] = await ask(
            method, url, "vault at", headers=headers, **options
        )
        return found

    def _access(self, wanted: Wanted) -> Access:
        """Return where and how to ask. Raises ``SecretError``."""
        address = self._said(wanted, "address", "ADDR")
        if not address:
            message = "vault needs an address: VAULT_ADDR, or 'address' in the entry"
            raise SecretError("secret.wrong", message)
        login = self._said(wanted, "login", "LOGIN") or "token"
        if login not in LOGINS:
            message = f"vault's login is '{login:.40}': expected {', '.join(LOGINS)}"
            raise SecretError("secret.wrong", message)
        role = self._said(wanted, "role", "ROLE") or ""
        if login != "token" and not role:
            message = f"vault's login by {login} needs 'role' in the entry, or "
            raise SecretError("secret.wrong", f"{message}VAULT_ROLE")
        return Access(
            address,
            self._said(wanted, "namespace", "NAMESPACE"),
            login,
            (self._said(wanted, "mount", "LOGIN_MOUNT") or login).strip("/"),
            role,
            self._said(wanted, "secret_file", "SECRET_FILE"),
        )

    def _said(self, wanted: Wanted, field: str, name: str) -> str | None:
        """Return a field of the entry, or the variable of Vault or OpenBao."""
        value = wanted.fields.get(field) or self._variable(name)
        return None if value is None else str(value)

    def _variable(self, name: str) -> str | None:
        found = self._environ.get(f"VAULT_{name}") or self._environ.get(f"BAO_{name}")
        return found or None

    def _credential(self, access: Access) -> dict[str, str]:
        """Return the body of a login. Raises ``SecretError``."""
        if access.login == "kubernetes":
            file = access.secret_file or SERVICE_TOKEN
            return {"role": access.role, "jwt": _read(file)}
        if access.secret_file:
            secret = _read(access.secret_file)
        else:
            secret = self._variable("SECRET_ID") or ""
        if not secret:
            message = "vault's login by approle needs a secret id: 'secret_file' in "
            message += "the entry, VAULT_SECRET_FILE or VAULT_SECRET_ID"
            raise SecretError("secret.missing", message)
        return {"role_id": access.role, "secret_id": secret}

    def _token(self) -> str:
        token = self._variable("TOKEN")
        file = Path(self._environ.get("HOME") or "~").expanduser() / ".vault-token"
        if not token and file.is_file():
            token = file.read_text().strip()
        if not token:
            message = f"vault needs a token: VAULT_TOKEN, or {file} (vault login)"
            raise SecretError("secret.missing", message)
        return token


def _read(file: str) -> str:
    """Read a credential; it may change while a server runs. Raises ``SecretError``."""
    try:
        with open(os.path.expanduser(file), "rb") as stream:
            text = stream.read(_MAX_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        message = f"vault's credential {file} cannot be read: {why}"
        raise SecretError("secret.missing", message) from None
    if not text:
        raise SecretError("secret.missing", f"vault's credential {file} is empty")
    return text


def _data(answer: Mapping[str, JSON]) -> JSON:
    """Return the fields, which are one level deeper in the KV store, version 2."""
    data = answer.get("data")
    if isinstance(data, Mapping) and {"data", "metadata"} <= data.keys():
        data = data["data"]
    if not isinstance(data, Mapping):
        raise SecretError("secret.wrong", "vault's answer has no data")
    return dict(data)
