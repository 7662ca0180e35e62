"""Who called what: the numbers behind ``GET /stats``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aiohttp import web

from answers import Handler

NOT_COUNTED = ("/stats", "/reset")


class Counts:
    """Answers by path and status, and the most calls that were under way at once."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._answers: dict[str, Counter[str]] = {}
        self._under_way = 0
        self._most = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "total": sum(sum(answers.values()) for answers in self._answers.values()),
            "most_at_once": self._most,
            "calls": {path: self._answers[path] for path in sorted(self._answers)},
        }

    @web.middleware
    async def count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in NOT_COUNTED:
            return await handler(request)
        self._under_way += 1
        self._most = max(self._most, self._under_way)
        try:
            response = await handler(request)
        finally:
            self._under_way -= 1
        answers = self._answers.setdefault(
            f"{request.method} {request.path}", Counter()
        )
        answers[str(response.status)] += 1
        return response
