"""``/api/users``: accounts, for admins."""

from __future__ import annotations

from typing import Any

from noetl.access.accounts import Account
from noetl.api.account_shapes import (
    AddUser,
    Ended,
    SetPassword,
    SetRoles,
    UserLine,
    UserList,
)
from noetl.api.routing import Call, Nothing, Reply, Routes
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
    """Make an account with roles such as `viewer` or `operator:finance/*`."""
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
    """All accounts, by name."""
    found = await call.site.people.everybody()
    return Reply(200, {"users": [describe(each) for each in found]})


@routes.route(
    "GET",
    "/api/users/{name}",
    permission=MANAGE,
    answers={200: UserLine},
    problems=_UNKNOWN,
)
async def show_user(call: Call[Nothing, Nothing]) -> Reply:
    """One account."""
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
    """Give an account these roles and no others. Its sessions end."""
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
    """Give an account another password, or none. Its sessions end."""
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
    """As answers have it."""
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
