"""Links that answer a question of an execution without a sign-in."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Protocol

import msgspec

from noetl.access.initiator import Initiator, initiator_of
from noetl.access.permissions import Principal, read_grants, roles_at
from noetl.dsl.json_schema import find_problems
from noetl.engine.state import ExecutionStatus
from noetl.engine.waits.signals import Sender
from noetl.errors import AccessError, SecretError
from noetl.ports import Summary
from noetl.ports.access import Accounts
from noetl.service.errors import RequestRefused
from noetl.service.executions.control import ExecutionControl
from noetl.service.executions.inbox import Question, Questions, may_answer
from noetl.types import JSON

MAX_ANSWER_BYTES = 1024
"""Bytes of an answer in a link, as JSON."""
PURPOSE = "noetl: a link that answers a question"


class AnswerLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a link holds: one answer to one question, with the rights of ``by``."""

    execution_id: str
    command_id: str
    asked_at: str
    signal: str
    data: JSON
    by: Initiator
    expires_at: float


class Seal(Protocol):
    """Seals data for a purpose."""

    def seal(self, text: bytes, purpose: str) -> bytes: ...

    def open(self, sealed: bytes, purpose: str) -> bytes: ...


class AnswerLinks:
    """Makes links that answer a question without a sign-in, and takes their answers.

    A link is sealed with the server's key. It ends with the question that it answers,
    so it works once, and it has the rights that its maker has when it is used.
    """

    def __init__(
        self,
        questions: Questions,
        seal: Seal,
        accounts: Accounts,
        control: ExecutionControl,
    ) -> None:
        self._questions = questions
        self._seal = seal
        self._accounts = accounts
        self._control = control

    async def make(
        self,
        summary: Summary,
        principal: Principal,
        command_id: str | None,
        data: JSON,
        expires_at: float,
    ) -> str:
        """Return the token of a link. Raises ``RequestRefused`` or ``AccessError``."""
        if len(msgspec.json.encode(data)) > MAX_ANSWER_BYTES:
            message = f"the answer of a link has at most {MAX_ANSWER_BYTES:,} bytes"
            raise RequestRefused("signal.invalid", message, problems=[message])
        asked = await self._questions.of(summary.execution_id)
        found = [each for each in asked if command_id in (None, each.command_id)]
        if len(found) != 1:
            message = f"{len(found)} questions are asked there: name one by command_id"
            raise RequestRefused("signal.unknown", message)
        question = found[0]
        if not may_answer(principal, summary, question):
            raise AccessError("auth.role", "the question is for other roles")
        problems = find_problems(question.schema, data) if question.schema else []
        if problems:
            message = f"the answer does not fit: {'; '.join(problems)}"
            raise RequestRefused("signal.invalid", message, problems=problems)
        link = AnswerLink(
            summary.execution_id,
            question.command_id,
            question.asked_at,
            question.signal,
            data,
            initiator_of(principal),
            expires_at,
        )
        sealed = self._seal.seal(msgspec.json.encode(link), PURPOSE)
        return urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, token: str, now: float) -> AnswerLink:
        """Open a token. Raises ``RequestRefused``: ``answer.invalid`` for one that this
        server did not make, ``answer.over`` for one that has expired."""
        try:
            sealed = urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
            link = msgspec.json.decode(
                self._seal.open(sealed, PURPOSE), type=AnswerLink
            )
        except (ValueError, SecretError, msgspec.MsgspecError):
            message = "this link is not one of this server, or is not complete"
            raise RequestRefused("answer.invalid", message) from None
        if now >= link.expires_at:
            raise RequestRefused("answer.over", "this link has expired")
        return link

    async def find(self, link: AnswerLink, summary: Summary) -> Question:
        """Return the question of a link. Raises ``RequestRefused`` (``answer.over``)
        if it is not asked any more, or its maker may not answer it any more."""
        return (await self._check(link, summary))[0]

    async def _check(
        self, link: AnswerLink, summary: Summary
    ) -> tuple[Question, Principal]:
        """Return the question, and the maker with the rights of this moment."""
        maker = await self._maker(link.by)
        for each in await self._questions.of(link.execution_id):
            if (each.command_id, each.asked_at) == (link.command_id, link.asked_at):
                if maker is not None and may_answer(maker, summary, each):
                    return each, maker
                message = "the account that made this link may not answer any more"
                raise RequestRefused("answer.over", message)
        message = "the question was answered already, or is not asked any more"
        raise RequestRefused("answer.over", message)

    async def give(
        self, link: AnswerLink, summary: Summary, address: str
    ) -> ExecutionStatus:
        """Give the answer of a link, with the rights that its maker has now. Raises
        ``RequestRefused``."""
        _, maker = await self._check(link, summary)
        roles = sorted(roles_at(maker, summary.playbook.get("path")))
        caller = {"principal": maker.name, "address": address, "means": "link"}
        return await self._control.signal(
            link.execution_id,
            link.signal,
            link.data,
            Sender(maker.name, roles),
            caller,
            (link.command_id, link.asked_at),
        )

    async def _maker(self, by: Initiator) -> Principal | None:
        account = await self._accounts.get(by.user_id or "")
        if account is None or account.disabled:
            return None
        try:
            limits = None if by.scopes is None else read_grants(by.scopes)
        except AccessError:  # a scope that this version does not know
            return None
        return Principal(
            user_id=account.user_id,
            name=account.name,
            grants=account.grants,
            means="token",
            limits=limits,
        )
