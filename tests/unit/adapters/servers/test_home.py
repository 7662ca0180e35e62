"""Which of several servers hears of an execution."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from noetl.adapters.servers.http import HttpTransport
from noetl.embedded import new_execution_id
from noetl.errors import Unreachable

MARKS = (0xA01, 0xB02)


async def answer(
    mark: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One answer that says who gives it; without a mark, none."""
    await reader.readuntil(b"\r\n\r\n")
    if mark is not None:
        said = f"HTTP/1.1 200 OK\r\nNoETL-Server: {mark:03x}\r\nContent-Length: 2\r\n"
        writer.write(f"{said}Connection: close\r\n\r\n{{}}".encode())
    writer.close()


@asynccontextmanager
async def servers(
    *marks: int | None,
) -> AsyncIterator[tuple[HttpTransport, Sequence[str]]]:
    listening = [
        await asyncio.start_server(
            lambda reader, writer, mark=mark: answer(mark, reader, writer),
            "127.0.0.1",
            0,
        )
        for mark in marks
    ]
    urls = [
        f"http://127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in listening
    ]
    transport = HttpTransport(urls, "s3cret")
    try:
        yield transport, urls
    finally:
        await transport.close()
        for each in listening:
            each.close()


async def ask(transport: HttpTransport, url: str) -> None:
    await transport.call("claim", b"{}", seconds=10, server=url)


@pytest.mark.spec("WKR-01")
def test_it_is_the_server_that_accepted_it() -> None:
    async def main() -> None:
        async with servers(*MARKS) as (transport, urls):
            for url in urls:
                await ask(transport, url)
            for mark, url in zip(MARKS, urls, strict=True):
                homes = {transport.home_of(new_execution_id(mark)) for _ in range(50)}
                assert homes == {url}
            # Of others, one server has some and one has the others, always the same.
            others = [new_execution_id(0xC03) for _ in range(50)]
            homes = {transport.home_of(each) for each in others}
            assert homes == set(urls)
            again = HttpTransport(urls, "s3cret")
            for url in urls:
                await ask(again, url)
            assert [again.home_of(each) for each in others] == [
                transport.home_of(each) for each in others
            ]

    asyncio.run(main())


@pytest.mark.spec("WKR-01")
def test_one_that_has_not_answered_yet_may_be_it() -> None:
    async def main() -> None:
        async with servers(*MARKS) as (transport, urls):
            await ask(transport, urls[0])
            homes = {transport.home_of(new_execution_id(MARKS[1])) for _ in range(50)}
            assert homes == {urls[1]}

    asyncio.run(main())


@pytest.mark.spec("WKR-01")
def test_one_that_does_not_answer_is_it_no_more() -> None:
    async def main() -> None:
        async with servers(MARKS[0], None) as (transport, urls):
            await ask(transport, urls[0])
            mine = new_execution_id(MARKS[1])
            assert transport.home_of(mine) == urls[1]
            with pytest.raises(Unreachable):
                await ask(transport, urls[1])
            assert transport.home_of(mine) == urls[0]

    asyncio.run(main())
