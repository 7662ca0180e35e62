"""``/api/sessions``: sign in and out, and see who is signed in."""

from __future__ import annotations

from noetl.access.sessions import Session
from noetl.api.account_shapes import OfUser, SessionLine, SessionList, SignIn, Whoami
from noetl.api.problems import Problem
from noetl.api.routing import PUBLIC, SIGNED_IN, Call, Nothing, Reply, Routes
from noetl.engine.times import rfc3339
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
    """Sign in with a password: the answer sets the session's cookie.

    A wrong name and a wrong password get the same answer. Ten attempts a minute are
    answered; more of them, with 429. Each is counted before its body is read.
    """
    body = call.body
    call.trail.signs_in(await call.site.logins.known_name(body.name), "password")
    done = await call.site.logins.by_password(body.name, body.password, call.address)
    session = done.session
    call.trail.add(session_id=session.session_id)
    left = session.expires_at - session.created_at
    cookie = call.site.access.cookie(done.token, left)
    name = session.display_name or session.user_id
    return Reply(201, _line(name, session), {"Set-Cookie": cookie})


@routes.route(
    "GET", "/api/sessions/current", permission=SIGNED_IN, answers={200: Whoami}
)
async def show_myself(call: Call[Nothing, Nothing]) -> Reply:
    """Who asks, and their roles."""
    who = call.principal
    limits = who.limits
    answer: JSON = {
        "user_id": who.user_id,
        "name": who.name,
        "roles": [str(grant) for grant in who.grants],
        "scopes": None if limits is None else [str(scope) for scope in limits],
        "means": who.means,
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
    """End the session of the cookie, if it is one, and take the cookie away."""
    credential = call.look()
    if credential is not None and credential.means == "session":
        ended = await call.site.logins.sign_out(credential.digest)
        if ended is not None:
            call.trail.of(ended)
    return Reply(200, {}, {"Set-Cookie": call.site.access.cookie("", 0)})


@routes.route(
    "GET",
    "/api/sessions",
    permission=SIGNED_IN,
    query=OfUser,
    answers={200: SessionList},
    problems=("account.unknown", "account.name"),
)
async def list_sessions(call: Call[Nothing, OfUser]) -> Reply:
    """One's own sessions; with `sessions:manage` everybody's, or a `user`'s."""
    people = call.site.people
    if call.query.user is not None:
        call.require(MANAGE, None)
        accounts = [await people.find(call.query.user)]
    elif call.allows(MANAGE, None):
        accounts = [*await people.everybody()]
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
    """End one of one's own sessions; with `sessions:manage`, anybody's."""
    people, session_id = call.site.people, call.params["session_id"]
    users = [call.principal.user_id]
    if call.allows(MANAGE, None):
        users = [each.user_id for each in await people.everybody()]
    for user_id in users:
        if await people.end_session(user_id, session_id):
            return Reply(200, {})
    raise Problem("session.unknown", "there is no such session, or it is not yours")


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
