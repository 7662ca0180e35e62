"""A vault for tests, on the loop of the test: its calls for logins, tokens and KV.

It answers as HashiCorp Vault and OpenBao do, and is neither of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from aiohttp import web

ROLE, SECRET_ID, JWT = "role-7f1c", "secret-id-93ab", "jwt-of-a-pod"
FIELDS = {"user": "app", "password": "v4ult-pass"}


class Vault:
    """``lasts`` and ``max`` are seconds of a token: until it must be renewed, and until
    it cannot be any more. ``clock`` is its time, ``tokens`` maps tokens to their end
    and their latest end; ``calls`` counts requests by path."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.lasts, self.max = 90.0, 199.0
        self.is_up = True
        self.tokens: dict[str, tuple[float, float]] = {}
        self.calls: Counter[str] = Counter()
        self.namespaces: set[str | None] = set()
        self.url = ""
        self._numbers = count(1)

    async def handle(self, request: web.Request) -> web.Response:
        path = request.path.removeprefix("/v1/")
        self.calls[path] += 1
        self.namespaces.add(request.headers.get("X-Vault-Namespace"))
        if not self.is_up:
            return web.json_response({"errors": ["sealed"]}, status=503)
        if path.endswith("/login"):
            return self._login(path, await request.json())
        token = request.headers.get("X-Vault-Token", "")
        if self.tokens.get(token, (0.0, 0.0))[0] <= self.clock:
            return web.json_response({"errors": ["permission denied"]}, status=403)
        if path == "auth/token/renew-self":
            latest = self.tokens[token][1]
            if latest <= self.clock + 1:
                return web.json_response({"errors": ["at its maximum"]}, status=400)
            return self._lease(token, latest)
        if path == "auth/token/lookup-self":
            return web.json_response({"data": {"id": token}})
        if path == "secret/data/denied":
            return web.json_response({"errors": ["permission denied"]}, status=403)
        data = {"data": FIELDS, "metadata": {"version": 1}}
        return web.json_response({"data": data})

    def _login(self, path: str, body: dict[str, str]) -> web.Response:
        wanted = {
            "auth/approle/login": {"role_id": ROLE, "secret_id": SECRET_ID},
            "auth/k8s-eu/login": {"role": ROLE, "jwt": JWT},
        }
        if body != wanted.get(path):
            got = {"errors": ["invalid role or secret ID"], "got": body}
            return web.json_response(got, status=400)  # careless: it says what it got
        return self._lease(f"hvs.{next(self._numbers)}", self.clock + self.max)

    def _lease(self, token: str, latest: float) -> web.Response:
        ends = min(self.clock + self.lasts, latest)
        self.tokens[token] = ends, latest
        auth = {"client_token": token, "renewable": True}
        auth["lease_duration"] = int(ends - self.clock)
        return web.json_response({"auth": auth})


@asynccontextmanager
async def serve_vault() -> AsyncIterator[Vault]:
    vault = Vault()
    application = web.Application()
    application.router.add_route("*", "/v1/{path:.*}", vault.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    vault.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield vault
    finally:
        await runner.cleanup()
