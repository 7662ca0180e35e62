"""Output of a task: whole lines, masked before they are cut, bounded, in chunks."""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
import string
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from secret_encodings import ENCODINGS

from noetl.engine.secrets.handles import Secrets
from noetl.errors import StoreError
from noetl.ports.task_logs import MAX_LINE_BYTES, LogChunk, LogSource, LogText
from noetl.runtime.worker import task_output
from noetl.runtime.worker.task_output import LogSender, TaskOutput

SECRET = "correct horse battery staple"
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nshort\n-----END KEY-----"


class Store:
    """Keeps chunks in memory."""

    def __init__(self) -> None:
        self.chunks: list[LogChunk] = []
        self.error: Exception | None = None
        self.stored = asyncio.Event()

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        if self.error is not None:
            raise self.error
        self.chunks += chunks
        self.stored.set()

    @property
    def texts(self) -> list[LogText]:
        return [text for chunk in self.chunks for text in chunk.texts]

    def lines(self, stream: str = "stdout") -> list[str]:
        return [
            line
            for text in self.texts
            if text.stream == stream
            for line in text.text.split("\n")
        ]


def source() -> LogSource:
    return LogSource("e", "talk", "e-1", "say", "e-1:say.1", 1, 1)


def printing(
    write: Callable[[TaskOutput], Any], secrets: Secrets | None = None
) -> tuple[Store, dict[str, int] | None]:
    """Return what is stored of an output, and its size."""
    store = Store()

    async def main() -> dict[str, int] | None:
        output = TaskOutput(LogSender(store.append), source, secrets or Secrets())
        write(output)
        return await output.close()

    return store, asyncio.run(main())


def test_an_output_without_a_byte_stores_nothing() -> None:
    store, size = printing(lambda output: None)
    assert (store.chunks, size) == ([], None)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 64, 10_000])
def test_lines_do_not_depend_on_how_they_are_read(width: int) -> None:
    text = "one\n\ntwo é 😀\nthree\nwithout an end"
    data = text.encode()

    def write(output: TaskOutput) -> None:
        for at in range(0, len(data), width):
            output.write("stdout", data[at : at + width])

    store, size = printing(write)
    assert store.lines() == text.split("\n")
    assert size == {"lines": 5, "bytes": len(data)}


def test_lines_of_two_streams_do_not_mix() -> None:
    def write(output: TaskOutput) -> None:
        output.write("stdout", b"o1 ")
        output.write("stderr", b"e1\ne2")
        output.write("stdout", b"o2\n")
        output.log("warning", "noticed\ntwice")

    store, _ = printing(write)
    assert store.lines("stdout") == ["o1 o2"]
    assert store.lines("stderr") == ["e1", "e2"]
    assert store.lines("log") == ["noticed", "twice"]
    assert {text.level for text in store.texts if text.stream == "log"} == {"warning"}


def test_marked_lines_of_stderr_are_records_with_a_level() -> None:
    def write(output: TaskOutput) -> None:
        output.write("stderr", b"plain\n\x1e20 told\n\x1e20 more\n\x1e55 bad\n\x1exx\n")

    store, _ = printing(write)
    assert [(t.stream, t.level, t.text) for t in store.texts] == [
        ("stderr", None, "plain"),
        ("log", "info", "told\nmore"),
        ("log", "critical", "bad"),
        ("stderr", None, "\x1exx"),
    ]


# -- bounds ------------------------------------------------------------------------


@pytest.mark.parametrize("length", [MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 1_000_000])
@pytest.mark.parametrize("width", [1000, 65_536])
def test_a_long_line_is_cut_and_says_so(length: int, width: int) -> None:
    data = b"before\n" + b"x" * length + b"\nafter\n"

    def write(output: TaskOutput) -> None:
        for at in range(0, len(data), width):
            output.write("stdout", data[at : at + width])

    before, line, after = printing(write)[0].lines()
    assert (before, after) == ("before", "after")
    if length <= MAX_LINE_BYTES:
        assert line == "x" * length
    else:
        cut = length - MAX_LINE_BYTES
        assert line == "x" * MAX_LINE_BYTES + f"[… {cut} bytes cut …]"


def test_too_long_an_output_keeps_its_beginning_and_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_output, "HEAD_BYTES", 10_000)
    monkeypatch.setattr(task_output, "TAIL_BYTES", 2_000)

    def write(output: TaskOutput) -> None:
        for n in range(10_000):
            output.write("stdout", b"line %d\n" % n)

    store, size = printing(write)
    found = store.lines()
    assert size == {
        "lines": 10_000,
        "bytes": sum(len(f"line {n}\n") for n in range(10_000)),
    }
    assert found[0] == "line 0"
    assert found[-1] == "line 9999"
    [note] = store.lines("log")
    missing = 10_000 - len(found)
    assert note.startswith(f"[… {missing:,} lines (")
    assert sum(len(line) + 1 for line in found) <= 12_000


def test_chunks_are_small_and_numbered() -> None:
    def write(output: TaskOutput) -> None:
        for _ in range(50):
            output.write("stdout", (b"x" * 99 + b"\n") * 600)

    store, _ = printing(write)
    assert [chunk.part for chunk in store.chunks] == list(
        range(1, len(store.chunks) + 1)
    )
    sizes = [sum(len(text.text) for text in c.texts) for c in store.chunks]
    assert max(sizes) <= task_output.MAX_CHUNK_BYTES + 65_536
    assert len(store.lines()) == 30_000


def test_lines_are_stored_within_a_second_while_the_task_runs() -> None:
    store = Store()

    async def main() -> None:
        secrets = Secrets({"key": SECRET})
        output = TaskOutput(LogSender(store.append), source, secrets)
        output.write("stdout", b"hello\n")
        loop = asyncio.get_running_loop()
        began = loop.time()
        await store.stored.wait()
        assert loop.time() - began <= 1.0

    asyncio.run(main())
    assert store.lines() == ["hello"]


def test_a_store_that_fails_loses_lines_and_not_the_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store()
    store.error = StoreError("no space left", "store.full")

    async def main() -> Any:
        output = TaskOutput(LogSender(store.append), source, Secrets())
        output.write("stdout", b"a\nb\n")
        return await output.close()

    assert asyncio.run(main()) == {"lines": 2, "bytes": 4}
    assert "2 lines of task logs were lost: no space left" in caplog.text


def test_a_slow_store_makes_the_writer_pause() -> None:
    async def main() -> None:
        going, resumed = asyncio.Event(), asyncio.Event()

        async def append(chunks: Sequence[LogChunk]) -> None:
            await going.wait()

        output = TaskOutput(LogSender(append), source, Secrets())
        while not output.is_full:
            output.write("stdout", b"x" * 9_999 + b"\n")
        assert output.written <= task_output.MAX_QUEUED_BYTES + 2**20
        output.when_stored(resumed.set)
        await asyncio.sleep(0)
        assert not resumed.is_set()
        going.set()
        await resumed.wait()
        await output.close()

    asyncio.run(main())


# -- secrets -----------------------------------------------------------------------


def widths(data: bytes) -> list[list[bytes]]:
    """Cut the data in several ways."""
    chance = random.Random(7)
    cuts = [[data], [data[i : i + 1] for i in range(len(data))]]
    for _ in range(20):
        places = sorted(chance.sample(range(1, len(data)), 3))
        bounds = [0, *places, len(data)]
        cuts.append([data[a:b] for a, b in itertools.pairwise(bounds)])
    return cuts


@pytest.mark.parametrize("secret", [SECRET, KEY, "hunter2"])
def test_a_secret_is_masked_wherever_the_output_is_cut(secret: str) -> None:
    data = f"before\n{secret}\nafter\n".encode()
    for parts in widths(data):
        store, _ = printing(
            lambda output, parts=parts: [output.write("stdout", p) for p in parts],  # type: ignore[misc]
            Secrets({"key": secret}),
        )
        lines = store.lines()
        assert lines[0] == "before"
        assert lines[-1] == "after"
        assert "***" in lines
        assert not any(part in "\n".join(lines) for part in secret.split("\n"))


def test_a_secret_that_is_folded_into_lines_is_masked_at_the_border_of_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line of it alone is not recognized."""
    monkeypatch.setattr(task_output, "MAX_CHUNK_BYTES", 9_000)
    secret = "".join(random.Random(3).choices("abcdefgh", k=150))
    folded = base64.encodebytes(secret.encode())
    filler = b"".join(b"%d\n" % n for n in range(2_500))
    for offset in range(0, 997, 32):  # all places of a border
        data = b"." * offset + b"\n" + filler + folded + filler

        def write(output: TaskOutput, data: bytes = data) -> None:
            for at in range(0, len(data), 997):
                output.write("stdout", data[at : at + 997])

        store, _ = printing(write, Secrets({"key": secret}))
        assert not set(folded.decode().split()) & set(store.lines())
        assert len(store.lines()) >= 5_000


@pytest.mark.spec("S-41")
def test_200_secrets_in_each_encoding_are_in_no_stored_line() -> None:
    chance = random.Random(2026)
    alphabet = string.ascii_letters + string.digits + "+/=_-.:@ äß"
    secrets = [
        "k" + "".join(chance.choices(alphabet, k=chance.randint(14, 60))) + "9"
        for _ in range(200)
    ]
    forms = [encode(secret) for secret in secrets for encode in ENCODINGS.values()]
    data = "".join(f"line {form} of text\n" for form in forms).encode()

    def write(output: TaskOutput) -> None:
        at = 0
        while at < len(data):
            size = chance.randint(1, 3_000)
            output.write("stdout", data[at : at + size])
            at += size

    store, _ = printing(write, Secrets({str(n): s for n, s in enumerate(secrets)}))
    text = "\n".join(store.lines())
    middles = [form[len(form) // 2 - 7 : len(form) // 2 + 7] for form in forms]

    assert len(ENCODINGS) >= 10
    assert text.count("***") >= len(forms)
    assert [middle for middle in middles if middle in text] == []


def test_a_long_line_is_masked_before_it_is_cut() -> None:
    line = "x" * (MAX_LINE_BYTES - 10) + SECRET + "y" * 99
    store, _ = printing(
        lambda output: output.write("stdout", line.encode()), Secrets({"key": SECRET})
    )
    assert SECRET[:8] not in store.lines()[0]
    assert base64.b64encode(SECRET.encode()).decode() not in store.lines()[0]


def test_the_end_of_too_long_an_output_is_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_output, "HEAD_BYTES", 100)
    monkeypatch.setattr(task_output, "TAIL_BYTES", 10_000)

    def write(output: TaskOutput) -> None:
        for _ in range(50):
            output.write("stdout", f"{SECRET}\n{KEY}\n".encode())

    store, _ = printing(write, Secrets({"a": SECRET, "b": KEY}))
    assert set(store.lines()) == {"***"}


def test_messages_of_tools_are_masked() -> None:
    store, _ = printing(
        lambda output: output.log("info", f"connected with {SECRET}"),
        Secrets({"key": SECRET}),
    )
    assert store.lines("log") == ["connected with ***"]


def test_the_end_of_too_long_an_output_is_stored_in_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_output, "HEAD_BYTES", 0)
    monkeypatch.setattr(task_output, "MAX_CHUNK_BYTES", 5)

    store, _ = printing(lambda o: [o.write("stdout", b"line\n") for _ in range(3)])

    assert [len(chunk.texts) for chunk in store.chunks] == [1, 1, 1]
    assert store.lines() == ["line"] * 3


def test_a_long_line_is_not_held_back_for_its_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_output, "MAX_CHUNK_BYTES", 10)
    line = b"x" * 60 + SECRET.encode()

    async def main() -> list[str]:
        store = Store()
        output = TaskOutput(LogSender(store.append), source, Secrets({"k": SECRET}))
        output.write("stdout", line + b"\n")
        await store.stored.wait()
        return store.lines()

    assert asyncio.run(main()) == ["x" * 60 + "***"]


def test_a_writer_goes_on_when_enough_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_output, "MAX_CHUNK_BYTES", 5)
    monkeypatch.setattr(task_output, "MAX_BATCH_BYTES", 5)
    monkeypatch.setattr(task_output, "MAX_QUEUED_BYTES", 9)
    left: list[int] = []

    def write(output: TaskOutput) -> None:
        for _ in range(4):
            output.write("stdout", b"line\n")
        assert output.is_full
        output.when_stored(lambda: left.append(output._sender._queued))

    printing(write)

    assert left == [5]
