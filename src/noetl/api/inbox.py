"""``/api/inbox``: the questions that executions have asked, and links that answer."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from noetl.api.executions import named
from noetl.api.http.problems import Problem
from noetl.api.http.routes import (
    CONTROL,
    PUBLIC,
    READ,
    Call,
    Nothing,
    Reply,
    Routes,
)
from noetl.api.schemas.executions import Name, Strict
from noetl.engine.state import ExecutionStatus
from noetl.engine.times import rfc3339
from noetl.service.executions.answer_links import AnswerLinks
from noetl.service.executions.inbox import Item, Place
from noetl.service.executions.sensitive import HIDDEN, is_sensitive
from noetl.types import JSON

routes = Routes()


class InboxQuery(Strict):
    """``mine`` are the questions that the caller may answer, or those of others."""

    mine: bool | None = None
    cursor: Annotated[str, Meta(pattern=r"^[ -~]{1,600}(?!\n)$")] | None = None


class InboxLine(msgspec.Struct):
    """A question. ``args`` are those of the step, ``schema`` is that of the answer's
    data; ``may`` is true if the caller may send the signal."""

    execution_id: str
    path: str | None
    version: str | None
    step: str
    task: str
    command_id: str
    signal: str | None
    asked_at: str
    until: str | None
    question: str | None
    args: JSON
    schema: JSON
    roles: list[str] | None
    may: bool


class InboxPage(msgspec.Struct):
    """``complete`` is false if the server has not read all executions yet: another call
    continues."""

    items: list[InboxLine]
    total_mine: int
    total_others: int
    cursor: str | None
    complete: bool


@routes.route(
    "GET",
    "/api/inbox",
    permission=READ,
    query=InboxQuery,
    answers={200: InboxPage},
)
async def list_questions(call: Call[Nothing, InboxQuery]) -> Reply:
    """List the signals that executions wait for, the longest wait first.

    A page has 100 of them. An answer is a signal: `POST
    /api/executions/{execution_id}/signal`.
    """
    query = call.query
    inbox = await call.site.inbox.page(
        call.principal, call.sees, mine=query.mine, after=_place(query.cursor)
    )
    following = inbox.following
    answer: JSON = {
        "items": [_line(call, each) for each in inbox.items],
        "total_mine": inbox.mine,
        "total_others": inbox.others,
        "cursor": None if following is None else "~".join(following),
        "complete": inbox.complete,
    }
    return Reply(200, answer)


class LinkRequest(Strict):
    """``data`` is the answer that the link gives. ``command_id`` names the question, if
    several are asked; the link works for ``expires_in`` seconds at most."""

    data: JSON = None
    command_id: Name | None = None
    expires_in: Annotated[int, Meta(ge=60, le=30 * 86_400)] = 86_400


class LinkAnswer(msgspec.Struct):
    """A link; its token is in the fragment of ``url_path``, and shown once."""

    token: str
    url_path: str
    expires_at: str


class Token(Strict):
    token: Annotated[str, Meta(min_length=1, max_length=3_800)]


class LinkedQuestion(msgspec.Struct):
    """What a link would answer with ``data``; ``by`` is the account that made it."""

    path: str | None
    version: str | None
    step: str
    task: str
    question: str | None
    asked_at: str
    until: str | None
    args: JSON
    data: JSON
    by: str
    expires_at: str


class Given(msgspec.Struct):
    status: ExecutionStatus


@routes.route(
    "POST",
    "/api/executions/{execution_id}/answer-links",
    permission=CONTROL,
    body=LinkRequest,
    answers={201: LinkAnswer},
    problems=(
        *("execution.unknown", "execution.state"),
        *("answer.off", "signal.invalid", "signal.unknown"),
    ),
)
async def make_answer_link(call: Call[LinkRequest, Nothing]) -> Reply:
    """Make a link that gives one answer to one question, without a sign-in.

    It works once, until it expires or the question ends, with the rights that the
    caller has then. The setting `answer_links` allows such links; it is off by default.
    """
    links, body = _links(call), call.body
    expires_at = time.time() + body.expires_in
    token = await links.make(
        named(call), call.principal, body.command_id, body.data, expires_at
    )
    answer: JSON = {
        "token": token,
        "url_path": f"/answer#t={token}",
        "expires_at": rfc3339(expires_at),
    }
    return Reply(201, answer)


@routes.route(
    "POST",
    "/api/answers/look",
    permission=PUBLIC,
    body=Token,
    answers={200: LinkedQuestion},
    problems=("answer.off", "answer.invalid", "answer.over", "host.not_allowed"),
    recorded="never",
)
async def show_linked_question(call: Call[Token, Nothing]) -> Reply:
    """Show the question of a link, and the answer that it gives. Nothing changes: a
    program that follows links in mails answers nothing."""
    links = _links(call)
    link = links.read(call.body.token, time.time())
    summary = await call.site.looking.summary(link.execution_id)
    asked = await links.find(link, summary)
    hides = is_sensitive(summary.playbook)
    answer: JSON = {
        "path": summary.playbook.get("path"),
        "version": summary.playbook.get("version"),
        "step": asked.step,
        "task": asked.task,
        "question": None if hides else _words(asked.schema),
        "asked_at": asked.asked_at,
        "until": asked.until,
        "args": HIDDEN if hides else asked.args,
        "data": link.data,
        "by": link.by.principal,
        "expires_at": rfc3339(link.expires_at),
    }
    return Reply(200, answer)


@routes.route(
    "POST",
    "/api/answers",
    permission=PUBLIC,
    body=Token,
    answers={200: Given},
    problems=(
        *("answer.off", "answer.invalid", "answer.over", "host.not_allowed"),
        *("execution.unknown", "execution.state", "signal.invalid", "auth.role"),
    ),
)
async def give_answer(call: Call[Token, Nothing]) -> Reply:
    """Give the answer of a link; the signal names the account that made it."""
    links = _links(call)
    link = links.read(call.body.token, time.time())
    call.trail.signs_in(link.by.principal, "link")
    call.trail.add(execution_id=link.execution_id)
    summary = await call.site.looking.summary(link.execution_id)
    return Reply(200, {"status": await links.give(link, summary, call.address)})


def _links(call: Call[Any, Any]) -> AnswerLinks:
    """Return what makes and takes links. Raises ``Problem``."""
    if call.site.answers is None:
        message = "this server allows no links that answer without a sign-in"
        raise Problem("answer.off", message, hint="the setting is answer_links")
    return call.site.answers


def _place(cursor: str | None) -> Place | None:
    if cursor is None:
        return None
    asked_at, _, rest = cursor.partition("~")
    execution_id, _, command_id = rest.partition("~")
    return asked_at, execution_id, command_id


def _line(call: Call[Nothing, InboxQuery], item: Item) -> dict[str, JSON]:
    asked, summary = item.question, item.summary
    line: dict[str, JSON] = {
        "execution_id": summary.execution_id,
        "path": summary.playbook.get("path"),
        "version": summary.playbook.get("version"),
        "step": asked.step,
        "task": asked.task,
        "command_id": asked.command_id,
        "signal": asked.signal,
        "asked_at": asked.asked_at,
        "until": asked.until,
        "question": _words(asked.schema),
        "args": asked.args,
        "schema": asked.schema,
        "roles": asked.roles,
        "may": item.may,
    }
    if not call.sees_data(summary):
        unseen = ("signal", "question", "schema", "roles")
        line |= {**dict.fromkeys(unseen), "args": HIDDEN, "may": False}
    return line


def _words(schema: JSON) -> str | None:
    """Return the title or description of the answer's schema, as the question."""
    for name in ("title", "description"):
        words = schema.get(name) if isinstance(schema, dict) else None
        if isinstance(words, str):
            return words
    return None
