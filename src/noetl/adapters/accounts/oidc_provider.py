"""OpenID Connect provider: discovery, exchange of the code, rotating keys."""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import quote_plus, urlsplit

import aiohttp
import msgspec
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from noetl.access.device_flow import (
    DEVICE_GRANT,
    DeviceCode,
    IdToken,
    Waiting,
    no_device_flow,
    read_device_answer,
    read_device_code,
)
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
from noetl.adapters.network import BlockedAddress, Network
from noetl.adapters.network.web import check_literal, open_session
from noetl.errors import AccessError
from noetl.ports import Clock
from noetl.types import JSON

Ask: TypeAlias = Callable[
    [str, Mapping[str, str] | None, Mapping[str, str]], Awaitable[tuple[int, JSON]]
]
"""Takes a URL, a form or None, and headers; returns the status and JSON or None."""

SECONDS = 10.0
_MAX_BYTES = 1024 * 1024


class Web:
    """One session for all calls, opened on the first call.

    An operator chose the provider, so local addresses are allowed.
    """

    def __init__(self) -> None:
        self._network = Network("allow")
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, JSON]:
        if self._session is None:
            self._session = open_session(self._network)
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            await check_literal(self._network, parts.hostname or "", port)
        except BlockedAddress as error:
            raise unreachable(url, f"is denied: {error}") from None
        return await asking(self._session)(url, form, headers)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def asking(session: aiohttp.ClientSession) -> Ask:
    """Return a function that posts a form, or sends a GET without one."""

    async def ask(
        url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, JSON]:
        try:
            async with session.request(
                "GET" if form is None else "POST",
                url,
                data=form,
                headers={"Accept": "application/json", **headers},
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=SECONDS),
            ) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > _MAX_BYTES:
                        raise unreachable(url, "answered with more than 1 MiB")
                return response.status, _decode(body)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = type(error).__name__
            raise unreachable(url, f"does not answer ({why})") from None

    return ask


def unreachable(url: str, why: str) -> AccessError:
    message = f"the OIDC provider {url.partition('?')[0]:.200} {why}"
    return AccessError("oidc.unreachable", message, 503)


def _decode(body: bytes | bytearray) -> JSON:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None


ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
"""Asymmetric algorithms: only the provider can sign."""
_CACHE_S = 3600.0
_MIN_REFRESH_S = 60.0
"""Minimum time between two fetches of the keys because of an unknown key id."""


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

    async def begin_device(self) -> DeviceCode:
        url = (await self._discover()).device_authorization_endpoint
        if url is None:
            raise no_device_flow(self.issuer)
        client = self._client
        form = {"client_id": client.client_id, "scope": " ".join(client.scopes)}
        return read_device_code(*await self._post(url, form), self.issuer)

    async def finish_device(self, device_code: str) -> Identity | Waiting:
        metadata, client = await self._discover(), self._client
        form = {"grant_type": DEVICE_GRANT, "client_id": client.client_id}
        form["device_code"] = device_code
        status, answer = await self._post(metadata.token_endpoint, form)
        token = read_device_answer(status, answer)
        if not isinstance(token, IdToken):
            return token
        claims = await self._verify(token.text)
        return read_claims(claims, client, None, self._clock.now())

    async def _discover(self) -> Metadata:
        now = self._clock.now()
        if self._metadata is None or now - self._metadata[0] >= _CACHE_S:
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
        status, answer = await self._post(metadata.token_endpoint, form)
        token = answer.get("id_token") if isinstance(answer, Mapping) else None
        if status != 200 or not isinstance(token, str):
            raise refused(f"the provider returned no ID token for the code ({status})")
        return token

    async def _post(self, url: str, form: dict[str, str]) -> tuple[int, JSON]:
        """Post a form with the identity of the client; return status and answer."""
        client, headers = self._client, {}
        if client.client_secret is not None:
            methods = (await self._discover()).token_endpoint_auth_methods_supported
            if "client_secret_basic" in methods:
                pair = map(quote_plus, (client.client_id, client.client_secret))
                basic = b64encode(":".join(pair).encode()).decode()
                headers["Authorization"] = f"Basic {basic}"
            else:
                form["client_secret"] = client.client_secret
        status, answer = await self._ask(url, form, headers)
        if status >= 500:
            raise unreachable(url, f"answered with {status}")
        return status, answer

    async def _verify(self, token: str) -> dict[str, JSON]:
        try:
            try:
                return self._decode(token, await self._key_set())
            except InvalidKeyIdError:  # signed by a new key, or by an unknown one
                return self._decode(token, await self._key_set(again=True))
        except (JoseError, ValueError, TypeError):
            raise refused("the ID token's signature is not the provider's") from None

    def _decode(self, token: str, keys: KeySet) -> dict[str, JSON]:
        return jwt.decode(token, keys, algorithms=ALGORITHMS).claims

    async def _key_set(self, again: bool = False) -> KeySet:
        now = self._clock.now()
        age = _CACHE_S if self._keys is None else now - self._keys[0]
        if self._keys is None or age >= (_MIN_REFRESH_S if again else _CACHE_S):
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
            raise unreachable(url, f"answered with {status}, without a JSON mapping")
        return value
