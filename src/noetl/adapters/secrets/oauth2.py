"""Tokens by client credentials (RFC 6749, 4.4), cached until they expire."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
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
from noetl.ports import Wanted
from noetl.types import JSON

_MARGIN = 30.0  # a token is not used in the last seconds before it expires
_NEEDED = ("token_url", "client_id", "client_secret")
_TAKEN = (*_NEEDED, "scope", "audience", "client_auth")


class OAuth2Provider:
    """With ``fixed``, a stored secret goes only to the stored ``token_url``."""

    def __init__(
        self,
        manager: SecretManager,
        now: Callable[[], float] = time.time,
        *,
        fixed: bool = False,
        network: Network | None = None,
    ) -> None:
        self._network = network
        self._manager = manager
        self._fixed = fixed
        self._now = now
        self._tokens: dict[bytes, tuple[float, JSON]] = {}

    async def get(self, wanted: Wanted) -> JSON:
        settings = await self._settings(wanted)
        key = sha256(msgspec.json.encode(settings, order="sorted")).digest()
        ends, token = self._tokens.get(key, (0.0, None))
        if token is None or wanted.fresh or ends - _MARGIN <= self._now():
            ends, token = await self._ask(settings)
            self._tokens[key] = (ends, token)
        return token

    async def _settings(self, wanted: Wanted) -> dict[str, str]:
        """Return the settings of the entry, completed by a stored credential."""
        fields = wanted.fields
        if any(not fields.get(name) for name in _NEEDED):
            stored = await ask_stored(self._manager, wanted)
            stored = stored if isinstance(stored, Mapping) else {}
            if self._fixed:
                refuse_redirection(wanted, fields, stored)
            fields = {**stored, **fields}
        missing = [name for name in _NEEDED if not fields.get(name)]
        if missing:
            message = f"oauth2 needs {', '.join(missing)}: write them in the entry, or "
            options = credential_options("oauth2")
            message += f"store them with: noetl keychain set {wanted.name} {options}"
            raise SecretError("secret.wrong", message)
        return {name: str(fields[name]) for name in _TAKEN if fields.get(name)}

    async def _ask(self, settings: Mapping[str, str]) -> tuple[float, JSON]:
        form = {"grant_type": "client_credentials"}
        form |= {
            name: settings[name] for name in ("scope", "audience") if name in settings
        }
        identity = (settings["client_id"], settings["client_secret"])
        headers = {"Accept": "application/json"}
        if settings.get("client_auth", "basic") == "body":
            form |= {"client_id": identity[0], "client_secret": identity[1]}
        else:
            pair = ":".join(map(quote_plus, identity)).encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        url, who = settings["token_url"], "the token endpoint"
        answer = await ask("POST", url, who, self._network, data=form, headers=headers)
        return self._read(answer, f"{who} {shown(url)}")

    def _read(self, answer: Mapping[str, JSON], who: str) -> tuple[float, JSON]:
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
        return ends, found
