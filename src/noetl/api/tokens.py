"""``/api/tokens``: API tokens, made and ended by bearers of one."""

from __future__ import annotations

from noetl.access.tokens import ApiToken
from noetl.api.account_shapes import AddToken, NewToken, OfUser, TokenList
from noetl.api.routing import Call, Nothing, Reply, Routes
from noetl.engine.times import rfc3339
from noetl.types import JSON

routes = Routes()

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
    """Make a token of an account. It is shown this once, and kept nowhere."""
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
    query=OfUser,
    answers={200: TokenList},
    problems=("account.unknown", "account.name"),
)
async def list_tokens(call: Call[Nothing, OfUser]) -> Reply:
    """What is known of all tokens, or of those of one `user`."""
    people, name = call.site.people, call.query.user
    accounts = await people.everybody() if name is None else [await people.find(name)]
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
    """End a token: the next request with it is refused."""
    await call.site.people.revoke(call.params["token_id"])
    return Reply(200, {})


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


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)
