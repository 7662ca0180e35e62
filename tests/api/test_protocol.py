"""How answers leave the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from noetl.api.http.problems import Problem
from noetl.api.http.protocol import MAX_BUFFERED_BYTES, Joined
from noetl.api.http.request_body import read_bytes


class Recorder:
    """A transport that remembers what it was asked to send, call by call."""

    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []
        self.closed = False

    def writelines(self, parts: Any) -> None:
        self.sent.append(list(parts))

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str) -> str:
        return f"the {name}"


def test_head_and_body_go_out_together() -> None:
    async def main() -> None:
        recorder: Any = Recorder()
        joined = Joined(recorder, asyncio.get_running_loop())
        joined.write(b"head")
        joined.write(b"body")
        assert recorder.sent == []
        await asyncio.sleep(0)
        joined.write(b"more")
        await asyncio.sleep(0)

        assert recorder.sent == [[b"head", b"body"], [b"more"]]
        assert joined.get_extra_info("peer") == "the peer"

    asyncio.run(main())


def test_what_is_large_does_not_wait() -> None:
    async def main() -> None:
        recorder: Any = Recorder()
        joined = Joined(recorder, asyncio.get_running_loop())
        joined.write(b"head")
        joined.write(b"x" * MAX_BUFFERED_BYTES)

        assert [len(parts) for parts in recorder.sent] == [2]

    asyncio.run(main())


def test_nothing_is_lost_by_closing() -> None:
    async def main() -> None:
        recorder: Any = Recorder()
        joined = Joined(recorder, asyncio.get_running_loop())
        joined.write(b"last words")
        joined.close()
        await asyncio.sleep(0)

        assert recorder.sent == [[b"last words"]]
        assert recorder.closed

    asyncio.run(main())


def read_whole(*messages: dict[str, Any], largest: int = 10) -> bytes:
    """A body that was complete when somebody began to read it."""
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    scope = {"type": "http", "headers": [], "noetl.is_whole": True}
    return asyncio.run(read_bytes(Request(scope, receive), largest))


def test_a_body_that_is_here_is_read_at_once() -> None:
    assert read_whole({"type": "http.request", "body": b"all"}) == b"all"


def test_a_body_in_two_parts_is_put_together() -> None:
    parts = (
        {"type": "http.request", "body": b"one ", "more_body": True},
        {"type": "http.request", "body": b"two"},
    )
    assert read_whole(*parts) == b"one two"


def test_who_has_left_has_not_sent_nothing() -> None:
    """An empty body would be a request, too."""
    with pytest.raises(Problem, match="the client disconnected"):
        read_whole({"type": "http.disconnect"})


def test_a_body_that_is_here_may_be_too_large() -> None:
    with pytest.raises(Problem, match="larger than 10 bytes"):
        read_whole({"type": "http.request", "body": b"x" * 11})
