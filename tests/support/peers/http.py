"""A server for tests: a program that prints its port and answers as it is asked to.

``python tests/support/peers/http.py [certificate.pem]`` serves until its standard input
ends.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import ssl
import sys
import zlib
from collections import Counter

from aiohttp import web

MIB = 1024 * 1024
calls: Counter[str] = Counter()


async def echo(request: web.Request) -> web.Response:
    """The request itself."""
    body = await request.read()
    seen = {
        "method": request.method,
        "path": request.path,
        "query": [[name, value] for name, value in request.query.items()],
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "body": body.decode(errors="replace"),
    }
    headers = {"X-Request-Id": "r-1", "Set-Cookie": "session=s3cret"}
    return web.json_response(seen, headers=headers)


async def script(request: web.Request) -> web.Response:
    """``/script/<name>/503,503,200``: the next of these statuses with each call."""
    name = request.match_info["name"]
    statuses = request.match_info["statuses"].split(",")
    status = int(statuses[min(calls[name], len(statuses) - 1)])
    calls[name] += 1
    return web.json_response({"status": status}, status=status)


async def raw(request: web.Request) -> web.Response:
    """``/raw?hex=…&type=…&encoding=…&status=…``: just these bytes."""
    query = request.query
    headers = {"Content-Type": query.get("type", "text/plain")}
    if "encoding" in query:
        headers["Content-Encoding"] = query["encoding"]
    body = bytes.fromhex(query.get("hex", ""))
    return web.Response(
        body=body, headers=headers, status=int(query.get("status", 200))
    )


async def redirect(request: web.Request) -> web.Response:
    """``/redirect?to=…&status=302``; without ``to``, to itself."""
    headers = {"Location": request.query.get("to", str(request.rel_url))}
    return web.Response(status=int(request.query.get("status", 302)), headers=headers)


async def silent(request: web.Request) -> web.Response:
    """No answer at all."""
    await asyncio.Event().wait()
    return web.Response()


async def stalled(request: web.Request) -> web.StreamResponse:
    """A beginning, and then nothing."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"begun")
    await asyncio.Event().wait()
    return response


async def drip(request: web.Request) -> web.StreamResponse:
    """A byte now and then, for ever."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b".")
        await asyncio.sleep(0.01)


async def endless(request: web.Request) -> web.StreamResponse:
    """Chunks without end."""
    response = web.StreamResponse(status=int(request.query.get("status", 200)))
    response.enable_chunked_encoding()
    await response.prepare(request)
    while True:
        await response.write(bytes(65536))


async def huge(request: web.Request) -> web.StreamResponse:
    """The announcement of 10 GB."""
    response = web.StreamResponse(headers={"Content-Length": str(10 * 1024 * MIB)})
    await response.prepare(request)
    await response.write(b"begun")
    await asyncio.Event().wait()
    return response


async def bomb(request: web.Request) -> web.StreamResponse:
    """``/bomb?mib=1000``: so much of nothing, well compressed."""
    deflater = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    response = web.StreamResponse(headers={"Content-Encoding": "gzip"})
    await response.prepare(request)
    for _ in range(int(request.query["mib"])):
        await response.write(deflater.compress(bytes(MIB)))
    await response.write(deflater.flush())
    return response


async def many(request: web.Request) -> web.Response:
    """``/many?headers=1000&size=10``."""
    size = int(request.query["size"])
    names = range(int(request.query["headers"]))
    return web.Response(headers={f"X-{number}": "x" * size for number in names})


async def packed(request: web.Request) -> web.Response:
    """``/packed?how=gzip|zlib|bare|twice``: the text ``"hello" * 100``."""
    text = b"hello" * 100
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bodies = {
        "gzip": gzip.compress(text),
        "zlib": zlib.compress(text),
        "bare": deflater.compress(text) + deflater.flush(),
        "twice": gzip.compress(text[:250]) + gzip.compress(text[250:]),
        "torn": gzip.compress(text)[:-12],
    }
    how = request.query["how"]
    encoding = "gzip" if how in ("gzip", "twice", "torn") else "deflate"
    return web.Response(body=bodies[how], headers={"Content-Encoding": encoding})


async def serve(certificate: str | None) -> None:
    application = web.Application()
    application.router.add_route("*", "/echo", echo)
    application.router.add_route("*", "/script/{name}/{statuses}", script)
    rest = (raw, redirect, silent, stalled, drip, endless, huge, bomb, many, packed)
    for handler in rest:
        application.router.add_route("*", f"/{handler.__name__}", handler)
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)  # some of the answers never end


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else None))
