"""The pages of the web UI: one document without data for all paths, and its assets."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec
from starlette.responses import Response

import noetl
from noetl.api.http.problems import Problem
from noetl.api.http.routes import PUBLIC, Call, Ignored, Nothing, Routes

routes = Routes()

BUNDLE = Path(noetl.__file__).parent / "ui"
"""The folder of the built web UI: `index.html` and `assets`."""
PAGES = (
    *("executions", "catalog", "inbox", "triggers", "workers", "keychain", "users"),
    *("sessions", "audit", "settings", "sign-in", "answer"),
)
"""The first names of the paths that are pages."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The browser runs only scripts of this server, which cannot write markup."""
MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
NOT_BUILT = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>NoETL</title></head>
<body><p>This installation has no web UI: it was not built. The API is complete; \
<a href="/openapi.json">its description</a> lists all calls.</p></body></html>
"""
_FOREVER = "public, max-age=31536000, immutable"


class File(msgspec.Struct, frozen=True):
    """A file of the bundle, as it is and compressed."""

    media: str
    plain: bytes
    packed: bytes
    mark: str


@cache
def read_bundle(folder: Path) -> dict[str, File]:
    """Return the files of the web UI by their paths, such as `assets/main-1f.js`."""
    files = [*folder.glob("index.html"), *folder.glob("assets/*")]
    found = {
        str(each.relative_to(folder)): _file(each.suffix, each.read_bytes())
        for each in files
        if each.suffix in MEDIA and each.is_file()
    }
    found.setdefault("index.html", _file(".html", NOT_BUILT.encode()))
    return found


def _file(suffix: str, plain: bytes) -> File:
    packed = gzip.compress(plain, 9, mtime=0)
    return File(MEDIA[suffix], plain, packed, f'"{sha256(plain).hexdigest()[:32]}"')


Page = Call[Nothing, Ignored]


def _page(path: str) -> None:
    route = routes.route("GET", path, permission=PUBLIC, query=Ignored, answers={})
    route(show_page)


async def show_page(call: Page) -> Response:
    """Return the document of the web UI, which loads its data by itself."""
    return _send(call, "index.html", "no-cache")


@routes.route(
    "GET", "/assets/{name}", permission=PUBLIC, query=Ignored, answers={200: None}
)
async def show_asset(call: Page) -> Response:
    """Return a script, style or picture of the web UI; its name has its digest."""
    return _send(call, f"assets/{call.params['name']}", _FOREVER)


def _send(call: Page, name: str, kept: str) -> Response:
    file = read_bundle(BUNDLE).get(name)
    if file is None:
        hint = "the server may have another version than the page: load it again"
        raise Problem("route.unknown", "unknown path", hint=hint)
    headers = {
        "Cache-Control": kept,
        "Content-Security-Policy": POLICY,
        "ETag": file.mark,
        "Vary": "Accept-Encoding",
    }
    if file.mark in call.request.headers.get("if-none-match", ""):
        return Response(None, 304, headers)
    if not _takes_gzip(call):
        return Response(file.plain, 200, headers, file.media)
    headers["Content-Encoding"] = "gzip"
    return Response(file.packed, 200, headers, file.media)


def _takes_gzip(call: Page) -> bool:
    said = call.request.headers.get("accept-encoding", "").lower()
    offers = [each.partition(";") for each in said.split(",")]
    return any(
        name.strip() == "gzip" and quality.strip() not in ("q=0", "q=0.0")
        for name, _, quality in offers
    )


_page("/")
for _name in PAGES:
    _page(f"/{_name}")
    _page(f"/{_name}/{{rest:path}}")
