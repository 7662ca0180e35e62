"""Workers of the version before work for a server of this version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.runtime.worker_protocol import messages

PINNED = Path(__file__).with_name("worker_protocol.json")
"""The messages of version ``OLDEST``. A new version gets a new file; this one stays as
long as its workers are served."""


def describe() -> dict[str, Any]:
    """The schemas of all messages, without what is written for people."""
    found = [each for each in vars(messages).values() if isinstance(each, type)]
    kinds = [each for each in found if issubclass(each, messages.Message)]
    _, shapes = msgspec.json.schema_components(kinds)
    for shape in shapes.values():
        shape.pop("description", None)
    text = json.dumps({"protocol": messages.OLDEST, "messages": shapes})
    described: dict[str, Any] = json.loads(text)
    return described


def breaks(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What a worker that knows the old messages would not understand."""
    found = []
    for name, shape in old.items():
        now = new.get(name)
        if now is None:
            found.append(f"{name} is gone")
            continue
        kept, fields = shape.get("properties", {}), now.get("properties", {})
        found += [
            f"{name}.{field} has changed"
            for field in kept
            if fields.get(field) != kept[field]
        ]
        required = {*now.get("required", ())} ^ {*shape.get("required", ())}
        found += [f"{name}.{field} is required or not" for field in sorted(required)]
    return found


def test_messages_are_understood_by_workers_of_the_oldest_version() -> None:
    pinned = json.loads(PINNED.read_text())
    today = describe()

    assert today["protocol"] == pinned["protocol"], (
        "OLDEST has grown: write the messages anew with tests/unit/runtime/"
        "test_worker_protocol.py as a program"
    )
    assert breaks(pinned["messages"], today["messages"]) == [], (
        "a worker of the version before would misunderstand this: give a new field a "
        "default, or raise PROTOCOL and let the server speak both versions"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"properties": {"a": {"type": "string"}}}, "M.a has changed"),
        ({"required": ["a", "b"]}, "M.b is required or not"),
        ({"required": []}, "M.a is required or not"),
    ],
)
def test_a_change_that_an_older_worker_misunderstands_is_found(
    change: dict[str, Any], said: str
) -> None:
    old = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}

    assert breaks({"M": old}, {"M": {**old, **change}}) == [said]
    assert breaks({"M": old}, {}) == ["M is gone"]
    more = {**old, "properties": {**old["properties"], "b": {"default": 1}}}
    assert breaks({"M": old}, {"M": more}) == []


def test_a_worker_reads_replies_of_a_newer_server() -> None:
    body = b'{"work": [], "lease_seconds": 3.0, "from_a_newer_server": true}'

    reply = messages.codec.decode(body, messages.ClaimReply)

    assert reply.lease_seconds == 3.0


@pytest.mark.parametrize(
    ("protocol", "hint"),
    [
        (messages.OLDEST - 1, "upgrade the worker"),
        (messages.PROTOCOL + 1, "upgrade the server first"),
    ],
)
def test_the_message_says_which_side_is_older(protocol: int, hint: str) -> None:
    assert not messages.is_served(protocol)
    assert messages.wrong_version(protocol).endswith(hint)


if __name__ == "__main__":
    PINNED.write_text(json.dumps(describe(), indent=1, sort_keys=True) + "\n")
