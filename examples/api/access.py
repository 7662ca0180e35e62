"""Doors with locks: basic, bearer, and OAuth2 client credentials.

The credentials are public, for this API keeps nothing worth a secret.
"""

from __future__ import annotations

import asyncio
import base64
import binascii

from aiohttp import web

from answers import Refusal

USER, PASSWORD = "demo", "demo-password"
TOKEN = "demo-token"
CLIENT, CLIENT_SECRET = "demo-client", "demo-client-secret"


class Access:
    """OAuth2 tokens serve a few calls and then expire, so that no example must wait."""

    def __init__(self) -> None:
        self.reset(None, None)

    def reset(self, calls: int | None, seconds: int | None) -> None:
        self._calls = 3 if calls is None else calls
        self._seconds = 3600 if seconds is None else seconds
        self._left: dict[str, int] = {}
        self._expiry: dict[str, float] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/private/basic", self.basic),
            web.get("/private/bearer", self.bearer),
            web.get("/private/oauth", self.oauth),
            web.post("/oauth/token", self.token),
        ]

    async def basic(self, request: web.Request) -> web.Response:
        """For user demo with the password demo-password."""
        if credentials_of(request) != (USER, PASSWORD):
            raise Refusal(401, "wrong user or password", WWW_Authenticate="Basic")
        return web.json_response({"welcome": USER})

    async def bearer(self, request: web.Request) -> web.Response:
        """For the bearer token demo-token."""
        if bearer_of(request) != TOKEN:
            raise Refusal(401, "wrong token", WWW_Authenticate="Bearer")
        return web.json_response({"welcome": "bearer"})

    async def oauth(self, request: web.Request) -> web.Response:
        """For a token of POST /oauth/token; it serves three calls, then it is 401."""
        token = bearer_of(request)
        now = asyncio.get_running_loop().time()
        if not self._left.get(token) or now >= self._expiry[token]:
            challenge = 'Bearer error="invalid_token"'
            raise Refusal(401, "unknown or expired", WWW_Authenticate=challenge)
        self._left[token] -= 1
        return web.json_response({"welcome": CLIENT, "calls_left": self._left[token]})

    async def token(self, request: web.Request) -> web.Response:
        """Client credentials (demo-client, demo-client-secret) against a token."""
        form = await request.post()
        given = credentials_of(request) or (
            form.get("client_id"),
            form.get("client_secret"),
        )
        if form.get("grant_type") != "client_credentials":
            error = {"error": "unsupported_grant_type"}
            return web.json_response(error, status=400)
        if given != (CLIENT, CLIENT_SECRET):
            return web.json_response({"error": "invalid_client"}, status=401)
        token = f"access-{len(self._left) + 1}"
        self._left[token] = self._calls
        self._expiry[token] = asyncio.get_running_loop().time() + self._seconds
        answer = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": self._seconds,
        }
        return web.json_response(answer, headers={"Cache-Control": "no-store"})


def bearer_of(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def credentials_of(request: web.Request) -> tuple[str, str] | None:
    """User and password of the header, if it has them."""
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme != "Basic":
        return None
    try:
        user, _, password = (
            base64.b64decode(encoded, validate=True).decode().partition(":")
        )
    except (binascii.Error, UnicodeDecodeError):
        return None
    return user, password
