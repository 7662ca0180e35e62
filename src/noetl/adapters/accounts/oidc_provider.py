"""A provider at work: discovery, the exchange of a code, keys that rotate."""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from urllib.parse import quote_plus

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from noetl.access.oidc import (
    Identity,
    Metadata,
    OidcClient,
    Pending,
    begin,
    read_answer,
    read_claims,
    read_metadata,
    refused,
)
from noetl.adapters.oidc.web import Ask, unreachable
from noetl.ports import Clock
from noetl.types import JSON

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
"""Signatures by a key that only the provider has."""
_FRESH = 3600.0
_PAUSE = 60.0
"""Seconds between two looks at the keys, however many unknown ones tokens name."""


class OidcProvider:
    def __init__(
        self,
        client: OidcClient,
        ask: Ask,
        clock: Clock,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._client = client
        self._ask = ask
        self._clock = clock
        self._entropy = entropy
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, KeySet] | None = None

    @property
    def issuer(self) -> str:
        return self._client.issuer

    async def begin(self) -> tuple[str, Pending]:
        metadata = await self._discover()
        return begin(self._client, metadata, self._entropy(96), self._clock.now())

    async def finish(
        self, answer: Mapping[str, str], pending: Pending | None
    ) -> Identity:
        code = read_answer(answer, pending, self._client, self._clock.now())
        assert pending is not None
        token = await self._exchange(code, pending.verifier)
        claims = await self._verify(token)
        return read_claims(claims, self._client, pending, self._clock.now())

    async def _discover(self) -> Metadata:
        now = self._clock.now()
        if self._metadata is None or now - self._metadata[0] >= _FRESH:
            issuer = self._client.issuer.rstrip("/")
            value = await self._get(f"{issuer}/.well-known/openid-configuration")
            self._metadata = (now, read_metadata(value, self._client))
        return self._metadata[1]

    async def _exchange(self, code: str, verifier: str) -> str:
        metadata = await self._discover()
        client = self._client
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": client.redirect_uri,
            "code_verifier": verifier,
            "client_id": client.client_id,
        }
        headers = {}
        if client.client_secret is not None:
            methods = metadata.token_endpoint_auth_methods_supported
            if "client_secret_basic" in methods:
                pair = map(quote_plus, (client.client_id, client.client_secret))
                basic = b64encode(":".join(pair).encode()).decode()
                headers["Authorization"] = f"Basic {basic}"
            else:
                form["client_secret"] = client.client_secret
        url = metadata.token_endpoint
        status, answer = await self._ask(url, form, headers)
        if status >= 500:
            raise unreachable(url, f"answered with {status}")
        token = answer.get("id_token") if isinstance(answer, Mapping) else None
        if status != 200 or not isinstance(token, str):
            raise refused(f"the provider gave no ID token for the code ({status})")
        return token

    async def _verify(self, token: str) -> dict[str, JSON]:
        try:
            try:
                return self._decode(token, await self._key_set())
            except InvalidKeyIdError:  # signed by a key that is new, or by nobody's
                return self._decode(token, await self._key_set(again=True))
        except (JoseError, ValueError, TypeError):
            raise refused("the ID token's signature is not the provider's") from None

    def _decode(self, token: str, keys: KeySet) -> dict[str, JSON]:
        return jwt.decode(token, keys, algorithms=ALGORITHMS).claims

    async def _key_set(self, again: bool = False) -> KeySet:
        now = self._clock.now()
        age = _FRESH if self._keys is None else now - self._keys[0]
        if self._keys is None or age >= (_PAUSE if again else _FRESH):
            url = (await self._discover()).jwks_uri
            value = await self._get(url)
            try:
                keys = KeySet.import_key_set(value)
            except (JoseError, ValueError, TypeError, KeyError, AttributeError):
                raise unreachable(url, "published no keys") from None
            self._keys = (now, keys)
        return self._keys[1]

    async def _get(self, url: str) -> JSON:
        status, value = await self._ask(url, None, {})
        if status != 200 or not isinstance(value, Mapping):
            raise unreachable(url, f"answered with {status}, and no JSON mapping")
        return value
