"""A language model that follows a script, behind the API that models have.

It thinks nothing: its n-th answer in a conversation is the n-th turn of the script. So
an example with an agent runs offline, costs nothing, and ends the same way each time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from answers import Refusal, read_body


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model calls a tool, or says something."""

    call: str | None = None
    arguments: dict[str, Any] = {}
    say: str | None = None


SCRIPT = (
    Turn(call="list_cities"),
    Turn(call="list_hotels", arguments={"city": "rome"}),
    Turn(say="Rome has seven hotels. The Aurelia is the cheapest, at 75 a night."),
)


class Prompt(msgspec.Struct):
    """What the stub reads of a request; it takes the rest and ignores it."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    stream: bool = False


class Chat:
    def __init__(self) -> None:
        self.reset(None)

    def reset(self, script: Sequence[Turn] | None) -> None:
        self._script = SCRIPT if script is None else script

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/chat/completions", self.complete)]

    async def complete(self, request: web.Request) -> web.Response:
        """The next turn of the script, as OpenAI's chat completions answer."""
        prompt = await read_body(request, Prompt)
        if prompt is None or not prompt.messages:
            raise Refusal(400, "messages is empty: at least one is needed")
        if prompt.stream:
            raise Refusal(400, "stream is true: this model answers in one piece")
        spoken = [each for each in prompt.messages if each.get("role") == "assistant"]
        number = min(len(spoken), len(self._script) - 1)
        return web.json_response(answer(prompt, number, self._script[number]))


def answer(prompt: Prompt, number: int, turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.say}
    if turn.call is not None:
        offered = [tool.get("function", {}).get("name") for tool in prompt.tools]
        if turn.call not in offered:
            raise Refusal(400, f"the script calls {turn.call!r}: offer it in tools")
        function = {"name": turn.call, "arguments": json.dumps(turn.arguments)}
        message["tool_calls"] = [
            {"id": f"call_{number + 1}", "type": "function", "function": function}
        ]
    asked = sum(len(str(each.get("content") or "").split()) for each in prompt.messages)
    said = len((turn.say or "").split())
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "stop" if turn.call is None else "tool_calls",
    }
    return {
        "id": f"chatcmpl-{number + 1}",
        "object": "chat.completion",
        "created": 0,
        "model": prompt.model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
        },
    }
