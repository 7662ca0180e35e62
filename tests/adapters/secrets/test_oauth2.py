"""Refresh tokens and signed assertions: an endpoint that checks and replaces them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from noetl.adapters.secrets.home_keychain import HomeKeychain, StoredKeychain
from noetl.adapters.secrets.registry import Providers
from noetl.errors import SecretError
from noetl.ports import Wanted

pytestmark = pytest.mark.spec("S-67")

FIRST = "refresh-token-first"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
RSA = RSAKey.generate_key(2048)
EC = ECKey.generate_key("P-256")


class Endpoint:
    """A token endpoint. Each refresh token can be used once; ``lasts`` are seconds of
    a token. It is careless: its refusals say what it got."""

    def __init__(self) -> None:
        self.url = ""
        self.refresh = FIRST
        self.lasts = 3600
        self.calls: Counter[str] = Counter()
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self._numbers = count(1)

    async def handle(self, request: web.Request) -> web.Response:
        form = dict(await request.post())
        grant = str(form["grant_type"])
        self.calls[grant] += 1
        number = next(self._numbers)
        answer: dict[str, Any] = {"access_token": f"access-token-{number}"}
        answer["expires_in"] = self.lasts
        if grant == "refresh_token":
            if form.get("refresh_token") != self.refresh or not self._is_client(form):
                refused = {"error": "invalid_grant", "got": json.dumps(form)}
                return web.json_response(refused, status=400)
            self.refresh = answer["refresh_token"] = f"refresh-token-{number}"
            await asyncio.sleep(0)  # others may come in between
        elif grant == BEARER:
            key = EC if "ES256" in str(request.query) else RSA
            token = jwt.decode(
                str(form["assertion"]), key, algorithms=["RS256", "ES256"]
            )
            self.claims, self.header = token.claims, token.header
        return web.json_response(answer)

    def _is_client(self, form: dict[str, Any]) -> bool:
        return form.get("client_id") == "app" and "client_secret" not in form


Get = Callable[..., Awaitable[str]]


def against(
    stored: StoredKeychain, work: Callable[[Endpoint, Get, Get], Awaitable[None]]
) -> None:
    """Run ``work`` with an endpoint, and with ``get`` of two servers on a keychain."""

    async def main() -> None:
        endpoint = Endpoint()
        application = web.Application()
        application.router.add_post("/token", endpoint.handle)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/token"

        def getting(providers: Providers) -> Get:
            async def get(name: str, *, fresh: bool = False, **fields: str) -> str:
                wanted = Wanted(name, "oauth2", fields, None, fresh)
                found: str = (await providers["oauth2"].get(wanted))["access_token"]
                return found

            return get

        try:
            each = [getting(Providers(HomeKeychain(stored), {})) for _ in range(2)]
            await work(endpoint, *each)
        finally:
            await runner.cleanup()

    asyncio.run(main())


def keep(stored: StoredKeychain, endpoint: Endpoint, **more: str) -> None:
    fields = {"grant": "refresh_token", "token_url": endpoint.url, "client_id": "app"}
    fields |= {"refresh_token": FIRST, **more}
    stored.set("crm", fields, "oauth2", "T", lambda _: ("sales/*", "*"))


def test_a_refresh_token_is_used_once_and_its_successor_is_stored(
    stored: StoredKeychain,
) -> None:
    async def work(endpoint: Endpoint, get: Get, _: Get) -> None:
        keep(stored, endpoint)
        found = await asyncio.gather(*[get("crm") for _ in range(5)])
        assert set(found) == {"access-token-1"}
        assert await get("crm") == "access-token-1"
        fresh = await asyncio.gather(*[get("crm", fresh=True) for _ in range(3)])
        assert set(fresh) == {"access-token-2"}
        assert endpoint.calls["refresh_token"] == 2
        record = stored.list()["crm"]
        value = stored.open("crm", record)
        assert value["refresh_token"] == endpoint.refresh == "refresh-token-2"
        assert (value["client_id"], record.bound) == ("app", ("sales/*", "*"))

    against(stored, work)


def test_servers_take_turns_with_a_stored_refresh_token(
    stored: StoredKeychain,
) -> None:
    async def work(endpoint: Endpoint, here: Get, there: Get) -> None:
        keep(stored, endpoint)
        assert await here("crm") == "access-token-1"
        assert await there("crm") == "access-token-2"
        assert await here("crm", fresh=True) == "access-token-3"
        # Both begin with the same one: the second finds what the first has stored.
        for found in await asyncio.gather(
            here("crm", fresh=True), there("crm", fresh=True), return_exceptions=True
        ):
            assert isinstance(found, str) or found.kind == "secret.denied"
        assert (await here("crm", fresh=True)).startswith("access-token-")

    against(stored, work)


def test_a_refresh_token_in_the_entry_itself_is_followed_in_memory(
    stored: StoredKeychain,
) -> None:
    async def work(endpoint: Endpoint, get: Get, _: Get) -> None:
        endpoint.lasts = 10
        fields = {"grant": "refresh_token", "token_url": endpoint.url}
        fields |= {"client_id": "app", "refresh_token": FIRST}
        assert await get("x", **fields) == "access-token-1"
        assert await get("x", **fields) == "access-token-2", "the first has expired"
        assert stored.list() == {}

    against(stored, work)


def test_a_refusal_quotes_no_token(stored: StoredKeychain) -> None:
    async def work(endpoint: Endpoint, get: Get, _: Get) -> None:
        keep(stored, endpoint, refresh_token="a-revoked-token")
        with pytest.raises(SecretError, match=r"400 \(invalid_grant\)") as refused:
            await get("crm")
        assert refused.value.kind == "secret.denied"
        assert "a-revoked-token" not in refused.value.message
        assert endpoint.calls["refresh_token"] == 1

    against(stored, work)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_an_assertion_is_signed_for_its_endpoint(
    stored: StoredKeychain, algorithm: str
) -> None:
    async def work(endpoint: Endpoint, get: Get, _: Get) -> None:
        key = {"RS256": RSA, "ES256": EC}[algorithm].as_pem(private=True).decode()
        url = f"{endpoint.url}?alg={algorithm}"
        fields = {"grant": "jwt_bearer", "token_url": url, "issuer": "robot@example"}
        fields |= {"private_key": key, "algorithm": algorithm, "key_id": "k1"}
        stored.set("g", {**fields, "scope": "read"}, "oauth2", "T")
        assert await get("g", subject="ann@example") == "access-token-1"
        assert await get("g", subject="ann@example") == "access-token-1"
        claims = {
            k: v for k, v in endpoint.claims.items() if k in ("iss", "sub", "aud")
        }
        assert claims == {"iss": "robot@example", "sub": "ann@example", "aud": url}
        assert (endpoint.header["kid"], endpoint.claims["scope"]) == ("k1", "read")
        assert endpoint.claims["exp"] - endpoint.claims["iat"] == 300
        assert await get("g", subject="bob@example") == "access-token-2"

    against(stored, work)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"grant": "password"}, "expected client_credentials, refresh_token, jwt"),
        ({"grant": "refresh_token"}, "oauth2 needs client_id, refresh_token"),
        ({"grant": "jwt_bearer"}, "oauth2 needs issuer, private_key"),
        (
            {"grant": "jwt_bearer", "issuer": "i", "private_key": "s3cret-no-key"},
            "not a key in PEM for RS256",
        ),
        (
            {
                **{"grant": "jwt_bearer", "issuer": "i", "private_key": "s3cret"},
                "algorithm": "HS256",
            },
            "'HS256' is not one of RS256",
        ),
    ],
)
def test_a_grant_that_lacks_something_is_explained(
    stored: StoredKeychain, fields: dict[str, str], words: str
) -> None:
    async def work(endpoint: Endpoint, get: Get, _: Get) -> None:
        stored.set("it", {"token_url": endpoint.url}, "oauth2", "T")
        with pytest.raises(SecretError, match=words) as refused:
            await get("it", token_url=endpoint.url, **fields)
        assert "s3cret" not in refused.value.message
        assert not endpoint.calls

    against(stored, work)
