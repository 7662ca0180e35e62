"""A token endpoint, a Vault and an echo for tests: a program that prints its port.

``python tests/support/peers/secrets.py`` serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import sys
from urllib.parse import quote

from aiohttp import web

CLIENT, SECRET = "me & you", "s3cret:with/odd+signs"
VAULT_TOKEN = "vault-token-71d9"
numbers = itertools.count(1)


async def token(request: web.Request) -> web.Response:
    """Client credentials against a new token; ``?expires=`` says how long it lasts."""
    form = await request.post()
    basic = base64.b64encode(b"me+%26+you:s3cret%3Awith%2Fodd%2Bsigns").decode()
    by_header = request.headers.get("Authorization") == f"Basic {basic}"
    by_body = (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)
    if form.get("grant_type") != "client_credentials" or not (by_header or by_body):
        # A careless server: it says what it got.
        body = {"error": "invalid_client", "got": form.get("client_secret") or basic}
        return web.json_response(body, status=401)
    answer: dict[str, object] = {"access_token": f"token-number-{next(numbers)}"}
    if "expires" in request.query:
        answer["expires_in"] = int(request.query["expires"])
    if "scope" in form:
        answer["scope"] = form["scope"]
    return web.json_response(answer)


async def strange(request: web.Request) -> web.Response:
    """``/strange/{what}``: answers that are none."""
    what = request.match_info["what"]
    if what == "text":
        return web.Response(text="not JSON")
    if what == "empty":
        return web.json_response({})
    if what == "moved":
        raise web.HTTPFound("/token")
    return web.json_response({"error": "unavailable"}, status=int(what))


async def send_in_parts(request: web.Request, size: int) -> web.StreamResponse:
    """A secret of so many characters, in two parts: more than one read can take."""
    response = web.StreamResponse()
    await response.prepare(request)
    for part in ('{"data": {"pin": "' + "p" * (size // 2), "p" * (size // 2) + '"}}'):
        await response.write(part.encode())
    await response.write_eof()
    return response


async def vault(request: web.Request) -> web.StreamResponse:
    """KV version 2 at ``secret/data/app``, version 1 at ``kv/app``."""
    if request.headers.get("X-Vault-Token") != VAULT_TOKEN:
        return web.json_response({"errors": ["permission denied"]}, status=403)
    fields = {"user": "app", "password": "v4ult-pass"}
    namespace = request.headers.get("X-Vault-Namespace")
    if namespace:
        fields["namespace"] = namespace
    match request.path:
        case "/v1/secret/data/app":
            data: object = {"data": fields, "metadata": {"version": 3}}
        case "/v1/kv/app":
            data = fields
        case "/v1/kv/long" | "/v1/kv/too-long" as path:
            size = 6_000_000 if path.endswith("too-long") else 1_000_000
            return await send_in_parts(request, size)
        case "/v1/kv/odd":
            data = ["no", "mapping"]
        case _:
            return web.json_response({"errors": []}, status=404)
    return web.json_response({"data": data})


async def echo(request: web.Request) -> web.Response:
    """``/echo/500?pad=10``: what was sent, after so much of nothing, by this status."""
    sent = {
        "query": dict(request.query),
        "headers": dict(request.headers),
        "body": (await request.read()).decode(),
    }
    text = "x" * int(request.query.get("pad", 0)) + json.dumps(sent)
    headers = {"X-Echo": quote(sent["body"]), "Content-Type": "text/plain"}
    status = int(request.match_info["status"])
    return web.Response(text=text, status=status, headers=headers)


async def serve() -> None:
    application = web.Application()
    application.router.add_route("*", "/echo/{status}", echo)
    application.router.add_post("/token", token)
    application.router.add_route("*", "/strange/{what}", strange)
    application.router.add_get("/v1/{path:.*}", vault)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
