"""``/api/live``: one stream of what changes, for all that a page shows."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response, StreamingResponse

from noetl.api.events import STREAM, is_stream
from noetl.api.http.problems import Problem
from noetl.api.http.quotas import keep
from noetl.api.http.routes import READ, Call, Nothing, Routes, find_execution
from noetl.api.listing import shown_line
from noetl.api.schemas.executions import Strict
from noetl.engine.ids import EXECUTION_ID
from noetl.errors import AccessError
from noetl.ports import Summary
from noetl.report.tally import Tally
from noetl.service.live import POLL_S
from noetl.types import JSON

routes = Routes()

PACE_S = 0.1
"""Seconds between two rounds of messages to one reader."""
SILENCE_S = 15.0
"""Seconds after which a comment shows that the stream lives."""
RENEW_S = 1.0
"""Seconds between two checks of the reader's rights."""
MAX_LINES = 100
"""Lines of executions in one message."""
REMEMBERED = 2_000
"""Lines that are not sent again to a reader that has them."""
MAX_TRACKS = 8
MAX_BEHIND = 10_000
"""Events that a track may be behind its log; beyond, its pages are read instead."""
TOPICS = ("executions", "inbox")
_ID = re.compile(r"([0-9a-f]{8})\.(\d{1,18})((?:~[0-9a-f-]{36}@\d{1,9}){0,8})\Z")
_TRACK = re.compile(rf"track:({EXECUTION_ID})@(\d{{1,9}})\Z")


class LiveQuery(Strict):
    """``topics`` are names, separated by commas: `executions`, `inbox`, and up to eight
    of the form `track:ID@SEQ`."""

    topics: Annotated[str, Meta(min_length=1, max_length=1000)]


class Track(msgspec.Struct):
    """An execution that is followed, and its sums up to what the reader has."""

    summary: Summary
    seq: int
    tally: Tally | None = None
    line: JSON = None
    checked_at: int = -1


Live = Call[Nothing, LiveQuery]


@routes.route(
    "GET",
    "/api/live",
    permission=READ,
    query=LiveQuery,
    answers={200: None},
    problems=("request.rate", "server.busy"),
    media=(STREAM,),
)
async def follow_changes(call: Live) -> Response:
    """Stream what changes, at most ten times a second.

    The first message is `ready`. `executions` sends the changed lines of the list,
    `inbox` that its questions have changed, and a track how the counters of the steps
    of an execution changed after the event SEQ. The header `Last-Event-ID` continues
    after a message; `reset` names a topic whose changes since then are not known, so
    that it must be loaded again. The stream ends when its reader loses the right to it.
    """
    topics, tracks = _topics(call.query.topics)
    if not is_stream(call):
        message = f"this call is a stream: send Accept: {STREAM}"
        raise Problem("query.invalid", message, more={"parameter": "topics"})
    followed = {
        name: Track(
            await find_execution(call.site, call.principal, READ, name, hides=True), seq
        )
        for name, seq in tracks.items()
    }
    keep(call.request.scope, call.site.quotas.streams.take(call.principal.user_id))
    reader = Reader(call, topics, followed)
    return StreamingResponse(reader.messages(), media_type=STREAM)


def _topics(text: str) -> tuple[list[str], dict[str, int]]:
    """Return the topics, and the tracks with their positions. Raises ``Problem``."""
    names: list[str] = []
    tracks: dict[str, int] = {}
    for each in dict.fromkeys(text.split(",")):
        if each in TOPICS:
            names.append(each)
        elif (match := _TRACK.match(each)) and len(tracks) < MAX_TRACKS:
            tracks[match[1]] = int(match[2])
        else:
            known = f"{', '.join(TOPICS)}, and up to {MAX_TRACKS} track:ID@SEQ"
            message = f"unknown topic '{each[:80]}'; known: {known}"
            more: dict[str, JSON] = {"parameter": "topics"}
            raise Problem("query.invalid", message, more=more)
    return names, tracks


class Reader:
    """The stream of one caller: its topics, and the last change it was told of."""

    def __init__(self, call: Live, topics: list[str], tracks: dict[str, Track]) -> None:
        self._call: Call[Any, Any] = call
        self._topics = topics
        self._tracks = tracks
        self._feed = call.site.live
        self._lines: OrderedDict[str, int] = OrderedDict()
        self._lost = False
        self._at = self._position()

    def _position(self) -> int:
        """Return the number after which to begin; note whether changes are lost."""
        seen = self._call.request.headers.get("last-event-id")
        if seen is None:
            return self._feed.at
        match = _ID.match(seen)
        for each in () if match is None else match[3].split("~")[1:]:
            name, _, seq = each.partition("@")
            if name in self._tracks:  # a log outlives the process that writes it
                self._tracks[name].seq = int(seq)
        if match is not None and match[1] == self._feed.mark:
            number = int(match[2])
            if self._feed.knows(number):
                return number
        self._lost = True
        return self._feed.at

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages until the server stops or the rights end."""
        loop = asyncio.get_running_loop()
        renewed, told = loop.time(), loop.time()
        yield b"retry: 1000\n" + self._message("ready", {})
        with self._feed.reading() as changed:
            while not self._feed.closed:
                changed.clear()
                if loop.time() - renewed >= RENEW_S:
                    if not await self._is_allowed():
                        return
                    renewed = loop.time()
                if text := await self._round():
                    told = loop.time()
                    yield text
                    await asyncio.sleep(PACE_S)
                    continue
                if loop.time() - told >= SILENCE_S:
                    told = loop.time()
                    yield b": still here\n\n"
                await _wait(changed, self._patience)

    @property
    def _patience(self) -> float:
        """Seconds until the next look, unless a change is noted before."""
        return POLL_S if self._tracks and self._feed.shared else SILENCE_S

    async def _is_allowed(self) -> bool:
        """Check the rights again: tokens expire, and roles change."""
        try:
            self._call = await self._call.renewed()
        except AccessError:
            return False
        return all(self._call.sees(each.summary) for each in self._tracks.values())

    async def _round(self) -> bytes:
        """Return the messages about the changes since the last round."""
        if self._lost or not self._feed.knows(self._at):
            self._lost, self._at = False, self._feed.at
            found = b"".join(
                self._message("reset", {"topic": each}) for each in self._topics
            )
        else:
            found = await self._changes()
        for track in self._tracks.values():
            found += await self._news(track)
        return found

    async def _changes(self) -> bytes:
        """Return the messages about executions and the inbox."""
        before, found = self._at, b""
        changes = self._feed.changes(before, MAX_LINES)
        self._at = changes[-1][0] if len(changes) == MAX_LINES else self._feed.at
        if "executions" in self._topics:
            lines = [line for each in changes async for line in self._line(*each)]
            if lines:
                found += self._message("executions", {"lines": lines})
        if "inbox" in self._topics and before < self._feed.asked_at <= self._at:
            found += self._message("inbox", {"changed": True})
        return found

    async def _news(self, track: Track) -> bytes:
        """Return the message about what has happened in an execution."""
        name = track.summary.execution_id
        number = self._feed.changed_at(name)
        if number == track.checked_at and not self._feed.shared:
            return b""
        site = self._call.site
        if track.tally is None:
            last = await site.looking.length(name)
            is_lost = track.seq > last or last - track.seq > MAX_BEHIND
            track.seq = last if is_lost else track.seq
            track.tally = await site.tracks.begin(name, track.seq)
            if is_lost:
                return self._message("reset", {"topic": f"track:{name}"})
        hides = not self._call.sees_data(track.summary)
        rows = await site.tracks.news(name, track.tally, hides=hides)
        line = shown_line(self._call, await site.looking.summary(name))
        if track.tally.seq == track.seq and line == track.line:
            track.checked_at = number
            return b""
        news: dict[str, JSON] = {"id": name, **rows}
        if line != track.line:
            track.line = news["line"] = line
        track.seq = track.tally.seq
        return self._message("track", news)

    async def _line(self, number: int, name: str) -> AsyncIterator[dict[str, JSON]]:
        """Yield the line of an execution if the caller sees it and does not have it."""
        summary = await self._feed.line(number, name)
        if summary is None or not self._call.sees(summary):
            return
        line = shown_line(self._call, summary)
        text = hash(msgspec.json.encode(line))
        if self._lines.get(name) == text:
            return
        self._lines[name] = text
        self._lines.move_to_end(name)
        while len(self._lines) > REMEMBERED:
            self._lines.popitem(last=False)
        yield line

    def _message(self, event: str, data: JSON) -> bytes:
        cursor = f"{self._feed.mark}.{self._at}"
        for name, track in self._tracks.items():
            cursor += f"~{name}@{track.seq}"
        head = f"event: {event}\nid: {cursor}\ndata: "
        return head.encode() + msgspec.json.encode(data) + b"\n\n"


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        return
