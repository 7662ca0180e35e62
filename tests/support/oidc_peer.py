"""An OpenID Connect provider on loopback, which tests steer and spoil."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import unquote_plus, urlencode

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey

CLIENT = "noetl"
SECRET = "s3cret/of+the client"
REDIRECT = "http://127.0.0.1:8082/oidc/callback"


class OidcPeer:
    """Signs in whoever comes as ``claims`` say."""

    def __init__(self) -> None:
        self.address = ""
        self.metadata: dict[str, Any] = {}
        self.claims: dict[str, Any] = {"sub": "auth0|123"}
        self.missing: set[str] = set()
        self.header: dict[str, str] = {}
        self.key = self._make("k1")
        self.published = [self.key]
        self.token_answer: web.Response | None = None
        self.looks = 0
        self.redirect = REDIRECT
        self.now = 1_800_000_000
        self.devices: set[str] = set()
        self.device_answer: dict[str, Any] = {}
        self.decisions: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}

    def _make(self, kid: str) -> ECKey:
        return ECKey.generate_key("P-256", parameters={"kid": kid, "use": "sig"})

    def rotate(self, kid: str, *, publish: bool = True) -> None:
        self.key = self._make(kid)
        if publish:
            self.published = [self.key]

    async def discovery(self, _: web.Request) -> web.Response:
        known = {
            "issuer": self.address + "/",
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/jwks",
            "device_authorization_endpoint": f"{self.address}/device",
        }
        return web.json_response({**known, **self.metadata})

    async def authorize(self, request: web.Request) -> web.Response:
        """Everybody consents at once."""
        query = dict(request.query)
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["redirect_uri"] == self.redirect
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = f"code-{len(self._codes)}"
        self._codes[code] = query
        answer = urlencode({"code": code, "state": query["state"]})
        return web.Response(
            status=302, headers={"Location": f"{self.redirect}?{answer}"}
        )

    async def device(self, request: web.Request) -> web.Response:
        """A device may begin; ``decisions`` are the answers until the user decides."""
        form = dict(await request.post())
        if not self._knows(request, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        assert form["client_id"] == CLIENT
        assert "openid" in str(form["scope"]).split()
        code = f"device-code-{len(self.devices)}-of-the-server-alone"
        self.devices.add(code)
        known = {
            "device_code": code,
            "user_code": "WDJB-MJHT",
            "verification_uri": f"{self.address}/activate",
            "expires_in": 600,
            "interval": 1,
        }
        return web.json_response({**known, **self.device_answer})

    def _of_device(self, form: dict[str, Any]) -> web.Response:
        if form.get("device_code") not in self.devices:
            return web.json_response({"error": "invalid_grant"}, status=400)
        if self.decisions:
            error = self.decisions.pop(0)
            return web.json_response({"error": error}, status=400)
        self.devices.remove(form["device_code"])
        return self._id_token({})

    async def token(self, request: web.Request) -> web.Response:
        if self.token_answer is not None:
            return self.token_answer
        form = await request.post()
        if str(form["grant_type"]).endswith(":device_code"):
            if not self._knows(request, dict(form)):
                return web.json_response({"error": "invalid_client"}, status=401)
            return self._of_device(dict(form))
        asked = self._codes.pop(str(form["code"]), None)
        proof = sha256(str(form["code_verifier"]).encode()).digest()
        challenge = urlsafe_b64encode(proof).rstrip(b"=").decode()
        if not self._knows(request, dict(form)):
            return web.json_response({"error": "invalid_client"}, status=401)
        if asked is None or challenge != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return self._id_token({"nonce": asked["nonce"]})

    def _id_token(self, more: dict[str, Any]) -> web.Response:
        claims = {
            "iss": self.address + "/",
            "aud": CLIENT,
            **more,
            "iat": self.now,
            "exp": self.now + 3600,
            **self.claims,
        }
        claims = {k: v for k, v in claims.items() if k not in self.missing}
        header = {"alg": "ES256", "kid": self.key.kid or "", **self.header}
        return web.json_response({"id_token": jwt.encode(header, claims, self.key)})

    def _knows(self, request: web.Request, form: dict[str, Any]) -> bool:
        if "client_secret" in form:
            return (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        pair = b64decode(text).decode().split(":")
        return scheme == "Basic" and [unquote_plus(p) for p in pair] == [CLIENT, SECRET]

    async def jwks(self, _: web.Request) -> web.Response:
        self.looks += 1
        keys = [key.as_dict(private=False) for key in self.published]
        return web.json_response({"keys": keys})


@asynccontextmanager
async def serving() -> AsyncIterator[OidcPeer]:
    peer = OidcPeer()
    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", peer.discovery)
    application.router.add_get("/authorize", peer.authorize)
    application.router.add_post("/token", peer.token)
    application.router.add_post("/device", peer.device)
    application.router.add_get("/jwks", peer.jwks)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    peer.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield peer
    finally:
        await runner.cleanup()


class Provider:
    """The provider on a thread of its own."""

    def __init__(self) -> None:
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(30)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        async with serving() as self.peer:
            self._ready.set()
            await self._over.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)
        self._loop.close()
