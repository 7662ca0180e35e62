"""How answers leave the server."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.api.protocol import LARGEST_PART, Joined


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
        joined.write(b"x" * LARGEST_PART)

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
