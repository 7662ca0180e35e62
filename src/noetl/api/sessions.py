"""``/api/sessions``: sign in, also by OpenID Connect; sign out and list sessions."""

from __future__ import annotations

import time
from html import escape
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from noetl import __version__
from noetl.access.oidc import SIGN_IN_TIMEOUT_S, Provider, read_pending, set_pending
from noetl.access.permissions import PERMISSIONS, places_of
from noetl.access.sessions import LIFETIME_S, Session
from noetl.api.http.problems import Problem
from noetl.api.http.routes import PUBLIC, SIGNED_IN, Call, Nothing, Reply, Routes
from noetl.api.schemas.accounts import (
    AccountFilter,
    Invitation,
    SessionLine,
    SessionList,
    SignIn,
    Whoami,
)
from noetl.api.schemas.executions import Strict
from noetl.api.users import provider_of
from noetl.engine.times import rfc3339
from noetl.errors import AccessError
from noetl.service.access.sign_in import SignedIn
from noetl.types import JSON

routes = Routes()

MANAGE = "sessions:manage"


@routes.route(
    "POST",
    "/api/sessions",
    permission=PUBLIC,
    body=SignIn,
    answers={201: SessionLine},
    problems=(
        "auth.failed",
        "auth.too_many",
        "host.not_allowed",
        "session.store_down",
    ),
    signs_in=True,
)
async def sign_in(call: Call[SignIn, Nothing]) -> Reply:
    """Sign in with a password, or with the code of an invitation; the answer sets the
    session's cookie.

    A wrong name and a wrong password get the same answer. More than ten attempts a
    minute get 429. Each attempt is counted before its body is read.
    """
    done = await _sign_in(call)
    session = done.session
    call.trail.add(session_id=session.session_id)
    left = session.expires_at - session.created_at
    cookie = call.site.access.cookie(done.token, left)
    name = session.display_name or session.user_id
    return Reply(201, _line(name, session), {"Set-Cookie": cookie})


async def _sign_in(call: Call[SignIn, Nothing]) -> SignedIn:
    """Open a session. Raises ``AccessError`` or ``Problem``."""
    body, logins = call.body, call.site.logins
    if body.code is not None and body.name is None and body.password is None:
        call.trail.signs_in(None, "code")
        done = await logins.by_invitation(body.code, call.address)
        account = await call.site.people.get(done.session.user_id)
        call.trail.signs_in(account.name, "code")
        return done
    if body.code is not None or body.name is None or body.password is None:
        message = "either name and password are required, or code"
        raise Problem("request.invalid", message)
    call.trail.signs_in(await logins.known_name(body.name), "password")
    return await logins.by_password(body.name, body.password, call.address)


@routes.route(
    "POST",
    "/api/sessions/invitations",
    permission=SIGNED_IN,
    answers={201: Invitation},
    problems=("auth.role",),
)
async def invite(call: Call[Nothing, Nothing]) -> Reply:
    """Make a one-time code that signs the caller in within a minute, in a browser.

    Only a token without scopes can do it: the session has all rights of the account,
    and no session makes further ones. `url_path` has the code in its fragment, which a
    browser does not send.
    """
    who = call.principal
    if who.means != "token" or who.limits is not None:
        message = "only a token without scopes can open a session"
        raise AccessError("auth.role", message)
    code = call.site.logins.invite(who.user_id)
    answer: JSON = {
        "code": code,
        "expires_at": rfc3339(time.time() + LIFETIME_S),
        "url_path": f"/sign-in#code={code}",
    }
    return Reply(201, answer)


@routes.route(
    "GET", "/api/sessions/current", permission=SIGNED_IN, answers={200: Whoami}
)
async def show_myself(call: Call[Nothing, Nothing]) -> Reply:
    """Show the caller's account, roles and permissions, each with its places."""
    who = call.principal
    limits = who.limits
    answer: JSON = {
        "user_id": who.user_id,
        "name": who.name,
        "roles": [str(grant) for grant in who.grants],
        "scopes": None if limits is None else [str(scope) for scope in limits],
        "means": who.means,
        "permissions": [
            {"permission": name, "places": places}
            for name in PERMISSIONS
            if (places := places_of(who, name))
        ],
        "version": __version__,
        "server_time": rfc3339(time.time()),
    }
    return Reply(200, answer)


@routes.route(
    "DELETE",
    "/api/sessions/current",
    permission=PUBLIC,
    answers={200: Nothing},
    problems=("auth.required", "host.not_allowed", "session.store_down"),
)
async def sign_out(call: Call[Nothing, Nothing]) -> Reply:
    """End the session of the cookie, and delete the cookie; or revoke the token of the
    request, if `noetl login` has got it."""
    credential = call.look()
    if credential is not None and credential.means == "token":
        account = await call.site.people.end_login(credential.digest)
        if account is not None:
            call.trail.signs_in(account.name, "token")
    if credential is not None and credential.means == "session":
        ended = await call.site.logins.sign_out(credential.digest)
        if ended is not None:
            call.trail.of(ended)
    return Reply(200, {}, {"Set-Cookie": call.site.access.cookie("", 0)})


@routes.route(
    "GET",
    "/api/sessions",
    permission=SIGNED_IN,
    query=AccountFilter,
    answers={200: SessionList},
    problems=("account.unknown", "account.name"),
)
async def list_sessions(call: Call[Nothing, AccountFilter]) -> Reply:
    """List the caller's sessions; with `sessions:manage` all sessions, or those of
    `user`."""
    people = call.site.people
    if call.query.user is not None:
        call.require(MANAGE, None)
        accounts = [await people.find(call.query.user)]
    elif call.allows(MANAGE, None):
        accounts = [*await people.list_accounts()]
    else:
        accounts = [await people.get(call.principal.user_id)]
    lines = [
        _line(account.name, session)
        for account in accounts
        for session in await people.sessions_of(account.user_id)
    ]
    return Reply(200, {"sessions": lines})


@routes.route(
    "DELETE",
    "/api/sessions/{session_id}",
    permission=SIGNED_IN,
    answers={200: Nothing},
    problems=("session.unknown", "account.unknown"),
)
async def end_session(call: Call[Nothing, Nothing]) -> Reply:
    """End a session of the caller; with `sessions:manage`, of any account."""
    people, session_id = call.site.people, call.params["session_id"]
    users = [call.principal.user_id]
    if call.allows(MANAGE, None):
        users = [each.user_id for each in await people.list_accounts()]
    for user_id in users:
        if await people.end_session(user_id, session_id):
            return Reply(200, {})
    raise Problem("session.unknown", "unknown session, or not one of yours")


def _line(user: str, session: Session) -> JSON:
    return {
        "session_id": session.session_id,
        "user": user,
        "roles": list(session.roles),
        "created_at": rfc3339(session.created_at),
        "expires_at": rfc3339(session.expires_at),
        "last_activity_at": rfc3339(session.last_activity_at),
        "client_ip": session.client_ip,
    }


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
<body><p>You are signed in. <a href="{place}">Continue</a></p></body></html>
"""


class SignInQuery(Strict):
    """``next`` is the page to open after the sign-in."""

    next: Place = HOME


class CallbackQuery(msgspec.Struct, kw_only=True):
    """Parameters of the provider's redirect; others are ignored."""

    state: str | None = None
    code: str | None = None
    error: str | None = None
    iss: str | None = None


class Means(msgspec.Struct):
    """``oidc`` is the issuer, or null; ``sign_in`` is the URL for browsers."""

    password: bool
    oidc: str | None
    sign_in: str | None


@routes.route("GET", "/api/sessions/means", permission=PUBLIC, answers={200: Means})
async def show_means(call: Call[Nothing, Nothing]) -> Reply:
    """Show the sign-in methods of this server."""
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
    """Redirect to the provider; a cookie holds the sign-in for ten minutes."""
    provider = _provider(call)
    url, pending = await provider.begin()
    secure = call.site.access.secure
    cookie = set_pending(pending, call.query.next, SIGN_IN_TIMEOUT_S, secure=secure)
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
    """Complete the sign-in after the provider's redirect: open a session.

    State, nonce, PKCE, issuer, audience, signature and times are checked. The answer is
    a page that forwards, because a SameSite=Strict cookie is not sent on a redirect
    that began at the provider.
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
    """Return the path, or the default: an attacker may have planted the cookie."""
    try:
        return msgspec.convert(text, Place)
    except msgspec.ValidationError:
        return HOME


def _provider(call: Call[object, object]) -> Provider:
    """Return the provider. Raises ``Problem`` or ``AccessError``."""
    provider = provider_of(call)
    call.site.logins.count(call.address)
    return provider
