"""``/api/users``, ``/api/tokens`` and ``/api/logins``: accounts, and their tokens."""

from __future__ import annotations

from typing import Any

from noetl.access.accounts import Account
from noetl.access.credentials import ApiToken
from noetl.access.oidc import Provider
from noetl.api.http.problems import Problem
from noetl.api.http.routes import PUBLIC, Call, Nothing, Reply, Routes
from noetl.api.schemas.accounts import (
    AccountFilter,
    AddToken,
    AddUser,
    CommandSignIn,
    CommandSignInState,
    Ended,
    FinishCommandSignIn,
    NewToken,
    SetPassword,
    SetRoles,
    TokenList,
    UserLine,
    UserList,
)
from noetl.engine.times import rfc3339
from noetl.types import JSON

routes = Routes()

MANAGE = "accounts:manage"
_UNKNOWN = ("account.unknown", "account.name")


@routes.route(
    "POST",
    "/api/users",
    permission=MANAGE,
    body=AddUser,
    answers={201: UserLine},
    problems=("account.exists", "account.name", "account.password", "account.role"),
)
async def add_user(call: Call[AddUser, Nothing]) -> Reply:
    """Create an account with roles such as `viewer` or `operator:finance/*`."""
    body = call.body
    call.trail.add(name=body.name, roles=body.roles)
    account = await call.site.people.add(
        body.name,
        body.roles,
        password=body.password,
        email=body.email,
        display_name=body.display_name,
    )
    return Reply(201, describe(account), {"Location": f"/api/users/{account.name}"})


@routes.route("GET", "/api/users", permission=MANAGE, answers={200: UserList})
async def list_users(call: Call[Nothing, Nothing]) -> Reply:
    """List all accounts by name."""
    found = await call.site.people.list_accounts()
    return Reply(200, {"users": [describe(each) for each in found]})


@routes.route(
    "GET",
    "/api/users/{name}",
    permission=MANAGE,
    answers={200: UserLine},
    problems=_UNKNOWN,
)
async def show_user(call: Call[Nothing, Nothing]) -> Reply:
    """Show an account."""
    return Reply(200, describe(await _named(call)))


@routes.route(
    "POST",
    "/api/users/{name}/roles",
    permission=MANAGE,
    body=SetRoles,
    answers={200: UserLine},
    problems=(*_UNKNOWN, "account.role"),
)
async def set_roles(call: Call[SetRoles, Nothing]) -> Reply:
    """Replace the roles of an account. Its sessions end."""
    call.trail.add(roles=call.body.roles)
    account = await _named(call)
    changed = await call.site.people.set_roles(account.user_id, call.body.roles)
    return Reply(200, describe(changed))


@routes.route(
    "POST",
    "/api/users/{name}/password",
    permission=MANAGE,
    body=SetPassword,
    answers={200: UserLine},
    problems=(*_UNKNOWN, "account.password"),
)
async def set_password(call: Call[SetPassword, Nothing]) -> Reply:
    """Set or remove the password of an account. Its sessions end."""
    account = await _named(call)
    changed = await call.site.people.set_password(account, call.body.password)
    return Reply(200, describe(changed))


@routes.route(
    "DELETE",
    "/api/users/{name}",
    permission=MANAGE,
    answers={200: UserLine},
    problems=_UNKNOWN,
)
async def delete_user(call: Call[Nothing, Nothing]) -> Reply:
    """Delete an account with its tokens and sessions."""
    account = await _named(call)
    call.trail.add(roles=[str(grant) for grant in account.grants])
    await call.site.people.remove(account)
    return Reply(200, describe(account))


@routes.route(
    "DELETE",
    "/api/users/{name}/sessions",
    permission="sessions:manage",
    answers={200: Ended},
    problems=_UNKNOWN,
)
async def end_sessions(call: Call[Nothing, Nothing]) -> Reply:
    """End all sessions of an account."""
    ended = await call.site.people.end_sessions(await _named(call))
    return Reply(200, {"ended": ended})


async def _named(call: Call[Any, Nothing]) -> Account:
    return await call.site.people.find(call.params["name"])


def describe(account: Account) -> JSON:
    """Return the account as answers show it."""
    return {
        "name": account.name,
        "user_id": account.user_id,
        "roles": [str(grant) for grant in account.grants],
        "email": account.email,
        "display_name": account.display_name,
        "disabled": account.disabled,
        "has_password": account.password_hash is not None,
        "issuer": account.issuer,
        "created_at": rfc3339(account.created_at),
    }


MANAGE = "tokens:manage"


@routes.route(
    "POST",
    "/api/tokens",
    permission=MANAGE,
    body=AddToken,
    answers={201: NewToken},
    problems=("account.unknown", "account.name", "account.role"),
)
async def add_token(call: Call[AddToken, Nothing]) -> Reply:
    """Create a token of an account. It is shown once and not stored."""
    body, people = call.body, call.site.people
    call.trail.add(user=body.user, label=body.label, scopes=body.scopes)
    account = await people.find(body.user)
    text, token = await people.give_token(
        account.user_id, body.label, scopes=body.scopes, seconds=body.expires_in
    )
    call.trail.add(token_id=token.token_id)
    return Reply(201, {**_line(account.name, token), "token": text})


@routes.route(
    "GET",
    "/api/tokens",
    permission=MANAGE,
    query=AccountFilter,
    answers={200: TokenList},
    problems=("account.unknown", "account.name"),
)
async def list_tokens(call: Call[Nothing, AccountFilter]) -> Reply:
    """List all tokens, or those of one `user`, without their secrets."""
    people, name = call.site.people, call.query.user
    accounts = (
        await people.list_accounts() if name is None else [await people.find(name)]
    )
    lines = [
        _line(account.name, token)
        for account in accounts
        for token in await people.tokens_of(account)
    ]
    return Reply(200, {"tokens": lines})


@routes.route(
    "DELETE",
    "/api/tokens/{token_id}",
    permission=MANAGE,
    answers={200: Nothing},
    problems=("account.unknown",),
)
async def revoke_token(call: Call[Nothing, Nothing]) -> Reply:
    """Revoke a token: the next request with it is refused."""
    await call.site.people.revoke(call.params["token_id"])
    return Reply(200, {})


_LOGIN = ("auth.too_many", "host.not_allowed", "oidc.off", "oidc.unreachable")


@routes.route(
    "POST",
    "/api/logins",
    permission=PUBLIC,
    answers={201: CommandSignIn},
    problems=(*_LOGIN, "auth.required", "oidc.no_device", "oidc.refused"),
    signs_in=True,
)
async def begin_login(call: Call[Nothing, Nothing]) -> Reply:
    """Begin the sign-in of a command (`noetl login`), by the device flow of RFC 8628.

    Needs an OpenID Connect provider that has it. Each address may send 100 attempts a
    minute, together with those of browsers.
    """
    handle, code = await call.site.command_logins.begin(provider_of(call))
    answer: JSON = {
        "handle": handle,
        "user_code": code.user_code,
        "verification_uri": code.verification_uri,
        "verification_uri_complete": code.verification_uri_complete,
        "expires_in": code.expires_in,
        "interval": code.interval,
    }
    return Reply(201, answer)


@routes.route(
    "POST",
    "/api/logins/token",
    permission=PUBLIC,
    body=FinishCommandSignIn,
    answers={200: CommandSignInState, 201: NewToken},
    problems=(*_LOGIN, "auth.failed", "auth.required", "auth.role", "oidc.refused"),
    signs_in=True,
)
async def finish_login(call: Call[FinishCommandSignIn, Nothing]) -> Reply:
    """Finish the sign-in of a command: 201 with a token of the user, or 200 while the
    user has not decided.

    The token has the roles of the user's account, and ends after 7 days. It is shown
    once. An account has at most 20 of them; another one replaces the oldest.
    """
    logins, provider = call.site.command_logins, provider_of(call)
    found = await logins.identify(provider, call.body.handle)
    if isinstance(found, str):
        return Reply(200, {"state": found})
    call.trail.signs_in(None, "oidc")
    call.trail.add(issuer=found.issuer, subject=found.subject)
    text, token, account = await logins.give_token(found, call.body.label)
    call.trail.signs_in(account.name, "oidc")
    call.trail.add(token_id=token.token_id)
    return Reply(201, {**_line(account.name, token), "token": text})


def _line(user: str, token: ApiToken) -> dict[str, JSON]:
    scopes = token.scopes
    return {
        "token_id": token.token_id,
        "user": user,
        "label": token.label,
        "scopes": None if scopes is None else [str(scope) for scope in scopes],
        "created_at": rfc3339(token.created_at),
        "expires_at": _moment(token.expires_at),
        "last_used_at": _moment(token.last_used_at),
    }


def provider_of(call: Call[Any, Any]) -> Provider:
    """Return the provider. Raises ``Problem`` or ``AccessError``."""
    call.look()
    if call.site.provider is None:
        message = "this server has no OpenID Connect provider; sign in with a password"
        hint = "its operator can set oidc_issuer, oidc_client_id and public_url"
        raise Problem("oidc.off", message, hint=hint)
    return call.site.provider


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)
