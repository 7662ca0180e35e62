"""``/api/sessions/oidc``: sign in by an OpenID Connect provider."""

from __future__ import annotations

from html import escape
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from noetl.access.oidc import PATIENCE, Provider
from noetl.access.pending import read_pending, set_pending
from noetl.api.problems import Problem
from noetl.api.routing import PUBLIC, Call, Nothing, Reply, Routes
from noetl.api.shapes import Strict

routes = Routes()

LOGIN = "/api/sessions/oidc"
CALLBACK = f"{LOGIN}/callback"
HOME = "/api/sessions/current"
# A path of this server: two slashes at the start would name another host. No part of
# the pattern can match the same text in two ways, so a refusal takes linear time.
Place = Annotated[
    str, Meta(max_length=255, pattern=r"^/(?:[A-Za-z0-9_.-]+(?:/|$))*(?!\n)$")
]
_ATTEMPTS = ("auth.too_many", "host.not_allowed", "oidc.off", "oidc.unreachable")
_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Signed in</title>
<meta http-equiv="refresh" content="0; url={place}"></head>
<body><p>You are signed in. <a href="{place}">Go on</a></p></body></html>
"""


class SignInQuery(Strict):
    """``next`` is where the browser goes after it."""

    next: Place = HOME


class CallbackQuery(msgspec.Struct, kw_only=True):
    """What a provider sends back; it may send more."""

    state: str | None = None
    code: str | None = None
    error: str | None = None
    iss: str | None = None


class Means(msgspec.Struct):
    """``oidc`` is the issuer, or null; ``sign_in`` is where a browser begins."""

    password: bool
    oidc: str | None
    sign_in: str | None


@routes.route("GET", "/api/sessions/means", permission=PUBLIC, answers={200: Means})
async def show_means(call: Call[Nothing, Nothing]) -> Reply:
    """How people sign in to this server."""
    provider = call.site.provider
    issuer = None if provider is None else provider.issuer
    sign_in = None if provider is None else LOGIN
    return Reply(200, {"password": True, "oidc": issuer, "sign_in": sign_in})


@routes.route(
    "GET",
    LOGIN,
    permission=PUBLIC,
    query=SignInQuery,
    answers={302: None},
    problems=(*_ATTEMPTS, "auth.required", "oidc.refused"),
)
async def begin_sign_in(call: Call[Nothing, SignInQuery]) -> Response:
    """Send a browser to the provider; a cookie of ten minutes remembers the sign-in."""
    provider = _provider(call)
    url, pending = await provider.begin()
    secure = call.site.access.secure
    cookie = set_pending(pending, call.query.next, PATIENCE, secure=secure)
    return Response(None, 302, {"Location": url, "Set-Cookie": cookie})


@routes.route(
    "GET",
    CALLBACK,
    permission=PUBLIC,
    query=CallbackQuery,
    answers={200: None},
    problems=(
        *_ATTEMPTS,
        *("auth.failed", "auth.required", "auth.role"),
        *("oidc.refused", "session.store_down"),
    ),
    media=("text/html",),
    recorded="audit",
)
async def finish_sign_in(call: Call[Nothing, CallbackQuery]) -> Response:
    """Where the provider sends the browser back: opens a session and sets its cookie.

    State, nonce, PKCE, issuer, audience, signature and times are checked. The page
    goes on by itself: a cookie for this site alone is not sent on a way that began at
    the provider.
    """
    provider = _provider(call)
    site = call.site
    secure = site.access.secure
    pending, place = read_pending(call.headers.get("cookie", ()), secure=secure)
    call.trail.signs_in(None, "oidc")
    given = msgspec.structs.asdict(call.query)
    answer = {name: value for name, value in given.items() if value is not None}
    identity = await provider.finish(answer, pending)
    call.trail.add(issuer=identity.issuer, subject=identity.subject)
    done = await site.logins.by_identity(identity, call.address)
    account = await site.people.get(done.session.user_id)
    call.trail.signs_in(account.name, "oidc")
    call.trail.add(session_id=done.session.session_id)
    left = done.session.expires_at - done.session.created_at
    page = _PAGE.format(place=escape(_place(place)))
    response = Response(page, 200, media_type="text/html")
    response.headers.append("Set-Cookie", site.access.cookie(done.token, left))
    response.headers.append("Set-Cookie", set_pending(None, "", 0, secure=secure))
    return response


def _place(text: str | None) -> str:
    """Somebody else may have planted the cookie: only a path of ours counts."""
    try:
        return msgspec.convert(text, Place)
    except msgspec.ValidationError:
        return HOME


def _provider(call: Call[object, object]) -> Provider:
    """Raises ``Problem`` or ``AccessError``."""
    call.look()
    if call.site.provider is None:
        message = "this server has no OpenID Connect provider; sign in by password"
        hint = "its operator can set oidc_issuer, oidc_client_id and public_url"
        raise Problem("oidc.off", message, hint=hint)
    call.site.logins.count(call.address)
    return call.site.provider
