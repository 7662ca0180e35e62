"""Messages of the live stream, as a program reads them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from servers import HUNG, Api


class Message(NamedTuple):
    event: str
    id: str
    data: Any


@contextmanager
def stream(
    api: Api, topics: str = "executions", last: str | None = None
) -> Iterator[Iterator[Message]]:
    """Messages from ``ready`` on, which has been read."""
    connection = http.client.HTTPConnection(api.host, api.port, timeout=HUNG)
    said = {"Accept": "text/event-stream", "Authorization": f"Bearer {api.token}"}
    if last is not None:
        said["Last-Event-ID"] = last
    with closing(connection):
        connection.request("GET", f"/api/live?topics={topics}", headers=said)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        found = messages(response)
        ready = next(found)
        assert ready.event == "ready"
        yield found


def messages(lines: Iterator[bytes]) -> Iterator[Message]:
    said: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode().rstrip("\n").partition(": ")
        if not line.strip() and "data" in said:
            yield Message(said["event"], said["id"], json.loads(said["data"]))
            said = {}
        elif colon and name:
            said[name] = value


def until(found: Iterator[Message], execution_id: str, status: str) -> Message:
    """The message in which the execution has the status."""
    for message in found:
        for line in message.data.get("lines", ()):
            if (line["execution_id"], line["status"]) == (execution_id, status):
                return message
    raise AssertionError("the stream has ended")
