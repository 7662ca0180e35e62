"""Tokens of OAuth 2: by client credentials, a refresh token, or a signed assertion."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus

import msgspec

from noetl.adapters.network import Network
from noetl.adapters.secrets.by_path import (
    SecretManager,
    ask_stored,
    credential_options,
    refuse_redirection,
)
from noetl.adapters.secrets.http import ask, shown
from noetl.errors import SecretError
from noetl.extras import install_command
from noetl.ports import Wanted
from noetl.types import JSON

MARGIN_S = 30.0
"""A token is not used in the last seconds before it expires."""
ASSERTION_S = 300
"""Seconds for which a signed assertion is valid."""
NEEDED: Mapping[str, tuple[str, ...]] = {
    "client_credentials": ("token_url", "client_id", "client_secret"),
    "refresh_token": ("token_url", "client_id", "refresh_token"),
    "jwt_bearer": ("token_url", "issuer", "private_key"),
}
"""Fields that each grant needs."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
_TAKEN = (
    *("grant", "token_url", "client_id", "client_secret", "scope", "audience"),
    *("client_auth", "refresh_token", "private_key", "key_id", "algorithm"),
    *("issuer", "subject"),
)
_FORM = {"jwt_bearer": "urn:ietf:params:oauth:grant-type:jwt-bearer"}

Remember = Callable[[Wanted, str, str], Awaitable[None]]
"""Replaces a stored refresh token, if it is still the given one: entry, old, new."""


class Known(msgspec.Struct):
    """A token until it ``ends``.

    ``given`` is the refresh token that was asked for, ``current`` the one that is valid
    now: an endpoint may replace it each time.
    """

    ends: float
    token: JSON
    obtained: int
    given: str | None = None
    current: str | None = None

    def __repr__(self) -> str:
        return "Known()"

    def covers(self, refresh: str | None) -> bool:
        return refresh is None or refresh in (self.given, self.current)


class OAuth2Provider:
    """Keeps tokens until they expire; one request fetches a token, others wait for it.

    With ``fixed``, a stored secret goes only to the stored ``token_url``.
    """

    def __init__(
        self,
        manager: SecretManager,
        now: Callable[[], float] = time.time,
        *,
        fixed: bool = False,
        network: Network | None = None,
        remember: Remember | None = None,
    ) -> None:
        self._network = network
        self._manager = manager
        self._fixed = fixed
        self._now = now
        self._remember = remember
        self._known: dict[bytes, Known] = {}
        self._turns: dict[bytes, asyncio.Lock] = {}
        self._count = 0

    async def get(self, wanted: Wanted) -> JSON:
        settings, is_stored = await self._settings(wanted)
        key = _digest(wanted, settings, is_stored)
        before = self._count
        known = self._valid(key, settings)
        if known is not None and not wanted.fresh:
            return known.token
        async with self._turns.setdefault(key, asyncio.Lock()):
            known = self._valid(key, settings)
            if known is not None and (not wanted.fresh or known.obtained > before):
                return known.token
            known = await self._obtain(wanted, settings, key, is_stored)
            self._count += 1
            known.obtained = self._count
            self._known[key] = known
            return known.token

    def _valid(self, key: bytes, settings: Mapping[str, str]) -> Known | None:
        known = self._known.get(key)
        if known is None or not known.covers(settings.get("refresh_token")):
            return None
        return known if known.ends - MARGIN_S > self._now() else None

    async def _obtain(
        self, wanted: Wanted, settings: dict[str, str], key: bytes, is_stored: bool
    ) -> Known:
        """Ask for a token. If another server has used the stored refresh token first,
        ask again with the one that it stored."""
        given = settings.get("refresh_token")
        known = self._known.get(key)
        if given is not None and known is not None and known.covers(given):
            settings = {**settings, "refresh_token": known.current or given}
        try:
            answer = await self._ask(settings)
        except SecretError as error:
            again, _ = await self._settings(wanted) if is_stored else (settings, False)
            changed = again.get("refresh_token") != given
            if error.kind != "secret.denied" or given is None or not changed:
                raise
            settings, given = again, again.get("refresh_token")
            answer = await self._ask(settings)
        found = self._read(answer, f"the token endpoint {shown(settings['token_url'])}")
        if given is None:
            return found
        used, renewed = settings["refresh_token"], answer.get("refresh_token")
        found.given, found.current = given, used
        if isinstance(renewed, str) and renewed and renewed != used:
            found.current = renewed
            if is_stored and self._remember is not None:
                await self._remember(wanted, used, renewed)
        return found

    async def _settings(self, wanted: Wanted) -> tuple[dict[str, str], bool]:
        """Return the settings of the entry, completed by a stored credential, and
        whether there is one."""
        fields = wanted.fields
        is_stored = bool(_missing(fields))
        if is_stored:
            stored = await ask_stored(self._manager, wanted)
            stored = stored if isinstance(stored, Mapping) else {}
            if self._fixed:
                refuse_redirection(wanted, fields, stored)
            fields = {**stored, **fields}
        grant = fields.get("grant") or "client_credentials"
        if grant not in NEEDED:
            known = ", ".join(NEEDED)
            message = f"the grant '{grant!s:.40}' is unknown: expected {known}"
            raise SecretError("secret.wrong", message)
        if missing := _missing(fields):
            message = f"oauth2 needs {', '.join(missing)}: write them in the entry, or "
            options = credential_options("oauth2")
            message += f"store them with: noetl keychain set {wanted.name} {options}"
            raise SecretError("secret.wrong", message)
        found = {name: str(fields[name]) for name in _TAKEN if fields.get(name)}
        return found, is_stored and "refresh_token" not in wanted.fields

    async def _ask(self, settings: Mapping[str, str]) -> Mapping[str, JSON]:
        grant = settings.get("grant", "client_credentials")
        form = {"grant_type": _FORM.get(grant, grant)}
        shared = ("scope",) if grant == "jwt_bearer" else ("scope", "audience")
        form |= {name: settings[name] for name in shared if name in settings}
        if grant == "refresh_token":
            form["refresh_token"] = settings["refresh_token"]
        if grant == "jwt_bearer":
            form["assertion"] = sign_assertion(settings, self._now())
        headers = {"Accept": "application/json", **_identity(settings, form)}
        url, who = settings["token_url"], "the token endpoint"
        found: Mapping[str, JSON] = await ask(
            "POST", url, who, self._network, data=form, headers=headers
        )
        return found

    def _read(self, answer: Mapping[str, JSON], who: str) -> Known:
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise SecretError("secret.wrong", f"{who} returned no access_token")
        seconds = answer.get("expires_in")
        lasts = float(seconds) if isinstance(seconds, int | float) else 0.0
        ends = self._now() + min(lasts, 10 * 365 * 86400.0)
        found: dict[str, JSON] = {
            "access_token": token,
            "token_type": answer.get("token_type") or "Bearer",
            "expires_at": None,
        }
        if lasts:
            found["expires_at"] = datetime.fromtimestamp(ends, UTC).isoformat()
        if isinstance(answer.get("scope"), str):
            found["scope"] = answer["scope"]
        return Known(ends, found, 0)


def _missing(fields: Mapping[str, JSON]) -> list[str]:
    grant = fields.get("grant") or "client_credentials"
    needed = NEEDED.get(str(grant), NEEDED["client_credentials"])
    return [name for name in needed if not fields.get(name)]


def _digest(wanted: Wanted, settings: Mapping[str, str], is_stored: bool) -> bytes:
    """Return the key of a token. A refresh token changes: its entry stands for it."""
    about: dict[str, JSON] = {k: v for k, v in settings.items() if k != "refresh_token"}
    if is_stored:
        about["stored"] = [wanted.fields.get("provider"), wanted.fields.get("path")]
        about["name"] = wanted.name
    else:
        about["refresh_token"] = settings.get("refresh_token")
    return sha256(msgspec.json.encode(about, order="sorted")).digest()


def _identity(settings: Mapping[str, str], form: dict[str, str]) -> dict[str, str]:
    """Return headers with the client's identity, or add it to the form."""
    name, secret = settings.get("client_id"), settings.get("client_secret")
    if name is None:
        return {}
    if secret is None or settings.get("client_auth", "basic") == "body":
        form["client_id"] = name
        if secret is not None:
            form["client_secret"] = secret
        return {}
    pair = ":".join(map(quote_plus, (name, secret))).encode()
    return {"Authorization": "Basic " + base64.b64encode(pair).decode()}


def sign_assertion(settings: Mapping[str, str], now: float) -> str:
    """Return the assertion of RFC 7523. Raises ``SecretError``, without the key."""
    algorithm = settings.get("algorithm", "RS256")
    if algorithm not in ALGORITHMS:
        message = f"the algorithm '{algorithm:.20}' is not one of "
        raise SecretError("secret.wrong", message + ", ".join(ALGORITHMS))
    try:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, OKPKey, RSAKey
    except ImportError:
        message = "the grant jwt_bearer needs joserfc, which is not installed; run: "
        raise SecretError("secret.extra", message + install_command("server")) from None
    claims: dict[str, Any] = {
        "iss": settings["issuer"],
        "aud": settings.get("audience") or settings["token_url"],
        "iat": int(now),
        "exp": int(now) + ASSERTION_S,
        "jti": secrets.token_hex(16),
    }
    claims |= {
        name: settings[field]
        for name, field in (("sub", "subject"), ("scope", "scope"))
        if field in settings
    }
    header: dict[str, Any] = {"alg": algorithm, "typ": "JWT"}
    if "key_id" in settings:
        header["kid"] = settings["key_id"]
    kind: Any = RSAKey
    if algorithm.startswith("E"):
        kind = OKPKey if algorithm == "EdDSA" else ECKey
    try:
        key: Any = kind.import_key(settings["private_key"])
        return jwt.encode(header, claims, key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError):
        message = f"the private_key is not a key in PEM for {algorithm}"
        raise SecretError("secret.wrong", message) from None
