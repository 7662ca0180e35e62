"""Signing in at a real provider, and at one that lies."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import msgspec
import pytest
from aiohttp import web
from oidc_peer import CLIENT, REDIRECT, SECRET, OidcPeer, serving

from noetl.access.oidc import Identity, OidcClient, Pending
from noetl.access.permissions import read_grants
from noetl.adapters.accounts.oidc_provider import OidcProvider, asking
from noetl.errors import AccessError, ConfigError

NOW = 1_800_000_000.0
ROLES = {"Admin": "admin", "Finance Ops": "operator:finance/*"}


class Moving:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError


class Visit:
    """A browser, our server's side of the sign-in, and the provider."""

    def __init__(self, peer: OidcPeer, http: aiohttp.ClientSession) -> None:
        self.peer = peer
        self.http = http
        self.clock = Moving()
        self.provider = self.make()

    def make(self, **changes: Any) -> OidcProvider:
        client = OidcClient(
            issuer=self.peer.address,
            client_id=CLIENT,
            client_secret=SECRET,
            redirect_uri=REDIRECT,
            roles_claim="https://noetl.example.com/roles",
            roles=ROLES,
        )
        client = msgspec.structs.replace(client, **changes)
        return OidcProvider(client, asking(self.http), self.clock)

    async def go(self) -> tuple[dict[str, str], Pending]:
        """To the provider and back; what the redirect brings."""
        url, pending = await self.provider.begin()
        async with self.http.get(url, allow_redirects=False) as response:
            assert response.status == 302
            location = response.headers["Location"]
        assert location.startswith(REDIRECT)
        return dict(parse_qsl(urlsplit(location).query)), pending

    async def sign_in(self) -> Identity:
        return await self.provider.finish(*await self.go())


@asynccontextmanager
async def visiting() -> AsyncIterator[Visit]:
    async with serving() as peer, aiohttp.ClientSession() as http:
        yield Visit(peer, http)


async def refusal(visit: Visit, answer: Mapping[str, str], pending: Pending) -> str:
    with pytest.raises(AccessError) as e:
        await visit.provider.finish(answer, pending)
    assert (e.value.kind, e.value.status) == ("oidc.refused", 401)
    assert SECRET not in e.value.message
    return e.value.message


async def test_a_sign_in_gives_the_roles_of_the_provider() -> None:
    async with visiting() as visit:
        visit.peer.claims |= {
            "email": "ann@example.com",
            "email_verified": True,
            "name": "Ann",
            "https://noetl.example.com/roles": ["Finance Ops", "Chess Club"],
        }
        identity = await visit.sign_in()

        assert identity == Identity(
            issuer=visit.peer.address,
            subject="auth0|123",
            email="ann@example.com",
            display_name="Ann",
            grants=read_grants(["operator:finance/*"]),
        )


@pytest.mark.parametrize(
    ("claims", "where", "grants"),
    [
        ({}, "roles", []),
        ({"roles": "Admin"}, "roles", ["admin"]),
        ({"roles": ["Admin", "Admin", 5, None]}, "roles", ["admin"]),
        ({"roles": {"Admin": True}}, "roles", []),
        ({"roles": ["admin"]}, "roles", []),
        ({"realm_access": {"roles": ["Admin"]}}, "realm_access.roles", ["admin"]),
        ({"a.b": ["Admin"], "a": {"b": ["Finance Ops"]}}, "a.b", ["admin"]),
    ],
)
async def test_roles_are_what_the_operator_mapped_and_nothing_else(
    claims: dict[str, Any], where: str, grants: list[str]
) -> None:
    async with visiting() as visit:
        visit.provider = visit.make(roles_claim=where)
        visit.peer.claims |= claims

        assert (await visit.sign_in()).grants == read_grants(grants)


async def test_an_unverified_address_is_not_adopted() -> None:
    async with visiting() as visit:
        visit.peer.claims |= {"email": "boss@example.com", "email_verified": False}

        assert (await visit.sign_in()).email is None


async def test_the_secret_goes_into_the_form_where_the_provider_wants_it() -> None:
    async with visiting() as visit:
        methods = ["client_secret_post"]
        visit.peer.metadata = {"token_endpoint_auth_methods_supported": methods}

        assert (await visit.sign_in()).subject == "auth0|123"


async def test_a_wrong_secret_is_refused_by_the_provider() -> None:
    async with visiting() as visit:
        visit.provider = visit.make(client_secret="wrong")

        message = await refusal(visit, *await visit.go())
        assert message == "the provider returned no ID token for the code (401)"


async def test_a_stolen_login_code_opens_nothing() -> None:
    async with visiting() as visit:
        answer, mine = await visit.go()
        _, theirs = await visit.go()

        forged = {**answer, "state": theirs.state}
        message = await refusal(visit, forged, theirs)
        assert message == "the provider returned no ID token for the code (400)"
        assert "not begun in this browser" in await refusal(visit, answer, theirs)
        with pytest.raises(AccessError, match="not begun in this browser"):
            await visit.provider.finish(answer, None)
        assert mine.verifier not in repr(mine)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": "x"}, "this sign-in was not begun in this browser"),
        ({"state": ""}, "this sign-in was not begun in this browser"),
        ({"state": "ü"}, "this sign-in was not begun in this browser"),
        ({"iss": "https://evil.example"}, "the redirect is from another provider"),
        ({"error": "access_denied"}, "the provider answered with access_denied"),
        ({"error": "<script>"}, "the provider answered with an error"),
        ({"code": ""}, "the provider sent no code"),
    ],
)
async def test_an_answer_that_is_not_to_this_question_is_refused(
    change: dict[str, str], message: str
) -> None:
    async with visiting() as visit:
        answer, pending = await visit.go()

        said = await refusal(visit, {**answer, **change}, pending)
        assert said.startswith(message)


async def test_a_sign_in_that_took_too_long_begins_again() -> None:
    async with visiting() as visit:
        answer, pending = await visit.go()
        visit.clock.time += 601

        assert "took too long" in await refusal(visit, answer, pending)


@pytest.mark.parametrize(
    ("claims", "missing", "message"),
    [
        ({"iss": "https://evil.example/"}, "", "from another issuer"),
        ({}, "iss", "from another issuer"),
        ({"aud": "somebody"}, "", "for another client"),
        ({"aud": ["somebody"]}, "", "for another client"),
        ({"aud": 5}, "", "for another client"),
        ({"aud": [CLIENT, "x"], "azp": "x"}, "", "given to another client"),
        ({"nonce": "other"}, "", "of another sign-in"),
        ({}, "nonce", "of another sign-in"),
        ({"exp": NOW - 61}, "", "has expired"),
        ({"exp": float("inf")}, "", "has no exp"),
        ({"exp": True}, "", "has no exp"),
        ({}, "exp", "has no exp"),
        ({"iat": NOW + 61}, "", "issued in the future"),
        ({"sub": ""}, "", "has no subject"),
        ({"sub": 5}, "", "has no subject"),
        ({}, "sub", "has no subject"),
    ],
)
async def test_an_id_token_that_says_something_wrong_is_refused(
    claims: dict[str, Any], missing: str, message: str
) -> None:
    async with visiting() as visit:
        visit.peer.claims |= claims
        visit.peer.missing = {missing}

        assert message in await refusal(visit, *await visit.go())


async def test_a_new_key_of_the_provider_is_looked_up_once_a_minute() -> None:
    async with visiting() as visit:
        await visit.sign_in()
        assert visit.peer.looks == 1
        visit.peer.rotate("k2")
        answer, pending = await visit.go()
        assert "signature" in await refusal(visit, answer, pending)
        assert visit.peer.looks == 1, "too soon for another look"

        visit.clock.time += 60
        assert (await visit.sign_in()).subject == "auth0|123"
        assert visit.peer.looks == 2
        await visit.sign_in()
        assert visit.peer.looks == 2


async def test_an_unpublished_signing_key_is_refused() -> None:
    async with visiting() as visit:
        await visit.sign_in()
        for kid in ("k1", "k9"):
            visit.peer.rotate(kid, publish=False)
            message = await refusal(visit, *await visit.go())
            assert message == "the ID token's signature is not the provider's"


def part(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


async def test_a_token_that_is_not_signed_or_by_a_shared_key_is_refused() -> None:
    async with visiting() as visit:
        public = visit.peer.key.as_pem(private=False)
        plain = part(b'{"alg":"none"}') + "." + part(b'{"sub":"auth0|123"}')
        shared = part(b'{"alg":"HS256","kid":"k1"}') + "." + part(b'{"sub":"x"}')
        mac = hmac.digest(public, shared.encode(), "sha256")
        for token in (
            f"{plain}.",
            f"{shared}.{part(mac)}",
            "no token",
            "",
        ):
            visit.peer.token_answer = web.json_response({"id_token": token})
            message = await refusal(visit, *await visit.go())
            assert message == "the ID token's signature is not the provider's"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"issuer": "https://evil.example"},
            "publishes the issuer 'https://evil.example'",
        ),
        ({"jwks_uri": None}, "is not valid: Expected `str`, got `null`"),
        ({"token_endpoint": "http://10.0.0.1/t"}, "token_endpoint must begin with"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri must begin with https://"),
    ],
)
async def test_a_provider_that_leads_elsewhere_is_refused(
    metadata: dict[str, Any], message: str
) -> None:
    async with visiting() as visit:
        visit.peer.metadata = metadata
        with pytest.raises(AccessError) as e:
            await visit.provider.begin()
        assert message in e.value.message


async def test_a_provider_that_is_away_is_named() -> None:
    async with visiting() as visit:
        visit.provider = visit.make(issuer="http://127.0.0.1:1")
        with pytest.raises(AccessError) as e:
            await visit.provider.begin()
        assert (e.value.kind, e.value.status) == ("oidc.unreachable", 503)
        assert "http://127.0.0.1:1/.well-known" in e.value.message

        visit.provider = visit.make()
        answer, pending = await visit.go()
        visit.peer.token_answer = web.Response(status=502, text="<html>")
        with pytest.raises(AccessError, match="answered with 502") as e:
            await visit.provider.finish(answer, pending)
        assert e.value.kind == "oidc.unreachable"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"issuer": "http://id.example.com"}, "issuer must begin with https://"),
        ({"issuer": ""}, "issuer must begin with https://"),
        ({"redirect_uri": "http://noetl.example.com/x"}, "redirect_uri must begin"),
        ({"roles": {"Boss": "admn"}}, "unknown role 'admn'; did you mean 'admin'"),
    ],
)
def test_a_wrong_setting_is_explained(change: dict[str, Any], message: str) -> None:
    fields = {"issuer": "https://id", "client_id": "x", "redirect_uri": "https://x/y"}
    with pytest.raises(ConfigError, match=message):
        OidcClient(**{**fields, **change})


def test_a_client_does_not_show_its_secret() -> None:
    client = OidcClient(
        issuer="https://id", client_id="x", redirect_uri=REDIRECT, client_secret=SECRET
    )
    assert SECRET not in repr(client)
