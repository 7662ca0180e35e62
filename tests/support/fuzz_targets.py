"""Targets of coverage-guided fuzzing: each takes bytes, and asserts what must hold."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from secret_encodings import ENCODINGS

from noetl import load
from noetl.adapters.stores.batches import (
    FIRST,
    Row,
    chain,
    first_damage,
    link,
    pack_batches,
    unpack_rows,
)
from noetl.engine.decide import Request, accept, report
from noetl.engine.event_codec import pack
from noetl.engine.events import Event
from noetl.engine.evolve import evolve
from noetl.engine.invariants import audit
from noetl.engine.recorder import Batch
from noetl.engine.secrets.redaction import MIN_LONG, Redactor
from noetl.engine.state import State
from noetl.errors import NoetlError, StoreError
from noetl.net.net import build_net

sys.path.insert(0, str(Path(__file__).parents[1] / "security" / "fuzz"))

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
LONG = 64 * 1024
"""Bytes of the longest input."""


class Target(NamedTuple):
    """What is done with an input, and the inputs to begin with."""

    check: Callable[[bytes], None]
    corpus: Callable[[], Sequence[bytes]]


# -- playbooks and templates ----------------------------------------------------------


def check_playbook(data: bytes) -> None:
    import yaml_source

    problem, _, _ = yaml_source.judge(data, frozenset(), strict=False)
    assert not problem, problem


def playbooks() -> Sequence[bytes]:
    import yaml_source

    return [text for text in yaml_source.corpus() if len(text) < 4_000]


def check_template(data: bytes) -> None:
    import templates

    templates.check(data.decode("utf-8", "surrogateescape"))


def some_templates() -> Sequence[bytes]:
    import templates

    grammar = templates.Grammar(random.Random(1))
    return [grammar.template().encode("utf-8", "replace") for _ in range(200)]


# -- reports and bodies ---------------------------------------------------------------

WORKFLOW = """
workflow:
  - step: start
    loop: {in: [1, 2], iterator: i, spec: {mode: parallel}}
    tool:
      - a: {kind: noop, result: 1}
      - b: {kind: wait, signal: go}
    next: {arcs: [{step: end, when: "{{ event.name == 'loop.done' }}"}]}
  - {step: end, tool: {kind: noop, result: 1}}
"""
OUTCOME = {"status": "ok", "result": 1}
FACTS: list[list[dict[str, Any]]] = [
    [{"name": "step.started"}],
    [{"name": "task.started", "label": "a", "attempt": 1}],
    [
        {"name": "task.started", "label": "a", "attempt": 1},
        {
            "name": "task.done",
            "label": "a",
            "attempt": 1,
            "payload": {
                "outcome": OUTCOME,
                "directive": {"do": "continue", "next": "b"},
                "set_ctx": {"n": 1},
                "set_iter": {"x.y": [1]},
            },
        },
        {
            "name": "task.suspended",
            "label": "b",
            "attempt": 1,
            "payload": {"on": "signal", "signal": "go"},
        },
    ],
    [
        {"name": "task.started", "label": "a", "attempt": 1},
        {
            "name": "task.done",
            "label": "a",
            "attempt": 1,
            "payload": {
                "outcome": {
                    "status": "error",
                    "result": None,
                    "error": {"kind": "timeout", "message": "late"},
                },
                "directive": {"do": "fail"},
                "error": {"kind": "timeout", "message": "late"},
            },
        },
    ],
]


@cache
def _begun() -> tuple[Any, Any, bytes, list[Event]]:
    playbook = load((HEAD + WORKFLOW).encode()).playbook
    assert playbook is not None
    batch = Batch(playbook, build_net(playbook), State())
    accept(batch, Request("019a0000-0000-7000-8000-000000000000", {}, {}))
    return playbook, batch.net, msgspec.json.encode(batch.state), batch.events


def check_report(data: bytes) -> None:
    """Take a report as a server does: it is refused, or the log stays sound."""
    from noetl.api.http.problems import Problem
    from noetl.api.http.request_body import read_message
    from noetl.engine.reports.checks import Malformed, check_shapes
    from noetl.runtime.worker_protocol.messages import ReportBatch

    try:
        reports = read_message(data, ReportBatch).reports
        for each in reports:
            check_shapes(each.facts)
    except (Problem, Malformed):
        return
    playbook, net, body, log = _begun()
    state = msgspec.json.decode(body, type=State)
    events = list(log)
    for each in reports[:4]:
        batch = Batch(playbook, net, msgspec.json.decode(body, type=State))
        try:  # its lease has been found in the store, so its command is one
            report(batch, _command(), each.facts, elsewhere=True)
        except NoetlError:
            continue
        for event in batch.events:
            evolve(state, event)
        events += batch.events
        body = msgspec.json.encode(batch.state)
        assert msgspec.json.encode(state) == body, "the log folds to another state"
    assert audit(events) == []


def _command() -> str:
    runs = msgspec.json.decode(_begun()[2], type=State).runs
    return f"{next(iter(runs))}/0"


def reports() -> Sequence[bytes]:
    lease = {"command_id": _command(), "epoch": 1}
    made = [{"lease": lease, "number": 1, "facts": facts} for facts in FACTS]
    bodies = [[each] for each in made] + [made[:2], made]
    return [
        json.dumps({"worker": "w", "pool": "default", "reports": each}).encode()
        for each in bodies
    ]


@cache
def shapes() -> list[type[Any]]:
    """Return the shapes of all bodies of the API."""
    from noetl.api.app import endpoints

    found = {each.body for each in endpoints() if msgspec.structs.fields(each.body)}
    return sorted(found, key=lambda shape: shape.__name__)


def check_body(data: bytes) -> None:
    """Read a body as the shape that its first byte chooses."""
    from noetl.api.http.problems import Problem
    from noetl.api.http.request_body import _read, read_message
    from noetl.runtime.worker_protocol.messages import Message

    known = shapes()
    shape = known[data[0] % len(known)] if data else known[0]
    read = read_message if issubclass(shape, Message) else _read
    try:
        value = read(data[1:], shape)
    except (Problem, NoetlError):
        return
    again = msgspec.json.encode(value)
    assert msgspec.json.encode(msgspec.json.decode(again, type=shape)) == again


def bodies() -> Sequence[bytes]:
    found = []
    for index, shape in enumerate(shapes()):
        names = [field.encode_name for field in msgspec.structs.fields(shape)]
        for value in ("a", 1, [], {}, None, ["a"], {"a": 1}):
            text = json.dumps(dict.fromkeys(names, value)).encode()
            found.append(bytes([index]) + text)
    return found


# -- rows of the log ------------------------------------------------------------------

NAME = "019a0000-0000-7000-8000-000000000000"


@cache
def _rows() -> list[Row]:
    """Return the rows of a log: batches of one and of some events."""
    events = _begun()[3]
    batches = [*pack_batches([pack(each) for each in events[:1]], NAME)]
    batches += pack_batches([pack(each) for each in events[1:]], NAME)
    return chain(batches, 0, FIRST)


def check_row(data: bytes) -> None:
    """Put bytes in the place of a row's body: any change is found, and read safely."""
    rows = _rows()
    index = data[0] % len(rows) if data else 0
    body = data[1:]
    changed = [*rows]
    changed[index] = rows[index]._replace(body=body)
    end, last = rows[-1].last_seq, rows[-1].hash
    damage = first_damage(changed, end, last, NAME)
    if body == rows[index].body:
        assert damage is None
        return
    assert damage is not None
    assert damage.seq == rows[index].first_seq
    _read_rows(changed)
    # By somebody who can compute hashes: the log is read, or refused.
    previous = rows[index - 1].hash if index else FIRST
    forged = changed[index]._replace(hash=link(previous, changed[index]))
    first_damage([*changed[:index], forged], forged.last_seq, forged.hash, NAME)
    _read_rows([*changed[:index], forged])


def _read_rows(rows: Sequence[Row]) -> None:
    with suppress(StoreError):
        events = unpack_rows(rows, NAME, 0, None)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


def row_bodies() -> Sequence[bytes]:
    plain = b"\n".join(pack(each) for each in _begun()[3])
    found = [bytes([index]) + row.body for index, row in enumerate(_rows())]
    return [*found, b"\0" + plain]


# -- secrets --------------------------------------------------------------------------

CANARY = "cAn4ry+/=&<7-\n secret\"'é"


def check_redaction(data: bytes) -> None:
    """Hide a secret in a text: no plain form of it is left."""
    encode = list(ENCODINGS.values())[data[0] % len(ENCODINGS)] if data else str
    head, _, tail = data[1:].decode("utf-8", "replace").partition("\0")
    given, _, after = tail.partition("\0")
    secret = given if len(given.strip()) >= MIN_LONG else CANARY
    redactor = Redactor([secret])
    text = f"{head} {encode(secret)} {after}"
    for masked in (
        redactor.data(text),
        redactor.data({"a": [text]})["a"][0],
        redactor.report({"m": text})["m"],
        redactor.printed(text),
    ):
        assert secret not in masked, "a secret is left"
        assert encode(secret) not in masked, "a form of a secret is left"
    assert redactor.data(redactor.data(text)) == redactor.data(text)


def hidings() -> Sequence[bytes]:
    texts = (
        "the\0\0end",
        "a\0another secret of words\0b",
        "=\0YWJjZGVmZ2hpamts\0%",
        "he\0zZ+%ca\ufffd\ufffd\ufffd\0",
    )
    return [
        bytes([number]) + text.encode()
        for number in range(len(ENCODINGS))
        for text in texts
    ]


TARGETS = {
    "playbooks": Target(check_playbook, playbooks),
    "templates": Target(check_template, some_templates),
    "reports": Target(check_report, reports),
    "bodies": Target(check_body, bodies),
    "rows": Target(check_row, row_bodies),
    "secrets": Target(check_redaction, hidings),
}


# -- without a fuzzer -----------------------------------------------------------------


def mutated(pick: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Return an input of the corpus with a few changes."""
    data = bytearray(pick.choice(corpus))
    for _ in range(pick.randint(1, 5)):
        at = pick.randrange(len(data) + 1)
        match pick.randrange(5):
            case 0:
                data[at : at + 1] = bytes([pick.randrange(256)])
            case 1:
                del data[at : at + pick.randint(1, 16)]
            case 2:
                other = pick.choice(corpus)
                start = pick.randrange(len(other) + 1)
                data[at:at] = other[start : start + pick.randint(1, 40)]
            case 3:
                data[at:at] = data[at : at + pick.randint(1, 20)] * pick.randint(1, 20)
            case _ if at < len(data):
                data[at] ^= 1 << pick.randrange(8)
    return bytes(data[:LONG])


def inputs(target: Target, seed: int, count: int) -> Iterator[bytes]:
    """Yield the corpus, then mutations of it."""
    corpus, pick = target.corpus(), random.Random(seed)
    yield from corpus[:count]
    draw = partial(mutated, pick, corpus)
    yield from (draw() for _ in range(count - len(corpus)))
