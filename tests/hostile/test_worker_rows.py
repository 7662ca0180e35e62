"""Rows 69 to 79: workers that are late, confused or mean harm, over real HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import nats
import pytest
from nats_servers import NatsServer
from servers import HELLO, Answer, Api, Running

from noetl.adapters.nats.permissions import WAKEUPS
from noetl.runtime.worker_protocol.messages import PROTOCOL

BEGUN = {"name": "step.started"}
STARTED = {"name": "task.started", "label": "task_1", "attempt": 1}
GOOD = {
    "outcome": {"status": "ok", "result": 1},
    "directive": {"do": "continue", "next": None},
}
FAILURE = {"kind": "x", "message": "y"}
TTL = 1.0


def done(**changes: Any) -> dict[str, Any]:
    payload = {**GOOD, **changes}
    return {**STARTED, "name": "task.done", "payload": payload}


class Worker:
    """One that says what a test wants."""

    def __init__(self, api: Api, name: str = "w-1") -> None:
        self._api = api
        self._name = name

    def claim(self, slots: int = 1, wait: float = 0.0) -> list[dict[str, Any]]:
        body = {
            "worker": self._name,
            "pool": "default",
            "slots": slots,
            "wait_seconds": wait,
        }
        answer = self._api.post("/api/worker/claim", {**body, "protocol": PROTOCOL})
        assert answer.status == 200, answer.body
        return [order["lease"] for order in answer.body["work"]]

    def send(self, lease: dict[str, Any], *facts: Any, number: int = 1) -> Answer:
        report = {"lease": lease, "number": number, "facts": facts}
        return self.send_all([report])

    def send_all(self, reports: list[dict[str, Any]]) -> Answer:
        body = {"worker": self._name, "pool": "default", "reports": reports}
        return self._api.post("/api/events", body)

    def say(self, lease: dict[str, Any], *facts: Any, **more: Any) -> str | None:
        """The kind of the refusal of one report, if it is refused."""
        answer = self.send(lease, *facts, **more)
        assert answer.status == 200, answer.body
        error = answer.body["replies"][0]["error"]
        return None if error is None else str(error[0])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("workers") / "home"
    server = Running(home, slots=0, lease_ttl=TTL)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def admin(server: Running) -> Api:
    return Api(server.url, server.token)


@pytest.fixture
def worker(server: Running, request: pytest.FixtureRequest) -> Worker:
    name = f"worker-{crc32(request.node.name.encode()):08x}"
    return Worker(server.person(name, "worker:default"))


@pytest.fixture
def lease(admin: Api, worker: Worker) -> Iterator[dict[str, Any]]:
    execution_id = admin.start(HELLO)
    (lease,) = [each for each in worker.claim(16) if execution_of(each) == execution_id]
    yield lease
    admin.post(f"/api/executions/{execution_id}/cancel")


def execution_of(lease: dict[str, Any]) -> str:
    return str(lease["command_id"].rpartition("-")[0])


def events(admin: Api, lease: dict[str, Any]) -> list[str]:
    found = admin.get(f"/api/executions/{execution_of(lease)}/events").body
    return [event["name"] for event in found["events"]]


def test_a_report_of_a_lease_that_others_have_now_changes_nothing(
    admin: Api, worker: Worker, lease: dict[str, Any]
) -> None:
    """Rows 69 and 79: it was silent for too long, and comes back."""
    again: list[dict[str, Any]] = []
    while not again:  # until the lease is over, and somebody takes it
        found = worker.claim(wait=10.0)
        again = [each for each in found if each["epoch"] > lease["epoch"]]
    before = events(admin, lease)

    assert worker.say(lease, BEGUN, STARTED, done()) == "lease.lost"
    assert events(admin, lease) == before
    assert worker.say(again[0], BEGUN, STARTED, done()) is None
    assert worker.say(again[0], done(), number=2) == "lease.lost", "it is over"


def test_what_was_never_leased_has_no_owner(
    admin: Api, worker: Worker, lease: dict[str, Any]
) -> None:
    """Row 70."""
    before = events(admin, lease)
    for made_up in (
        {**lease, "epoch": lease["epoch"] + 5},
        {**lease, "epoch": 0},
        {**lease, "command_id": f"{execution_of(lease)}-99"},
    ):
        assert worker.say(made_up, BEGUN) == "lease.not_owner"
    other = Worker(worker._api, "w-2")
    assert other.say(lease, BEGUN) == "lease.not_owner"
    assert events(admin, lease) == before


@pytest.mark.parametrize(
    "name", ["workflow.finished", "token.enqueued", "next.evaluated", "step.done", ""]
)
def test_a_worker_decides_nothing(
    admin: Api, worker: Worker, lease: dict[str, Any], name: str
) -> None:
    """Row 71."""
    before = events(admin, lease)

    answer = worker.send(lease, BEGUN, {"name": name})

    assert (answer.status, answer.body["kind"]) == (403, "event.not_allowed")
    assert events(admin, lease) == before


def test_a_report_that_is_sent_again_is_recorded_once(
    admin: Api, worker: Worker, lease: dict[str, Any]
) -> None:
    """Row 72."""
    assert worker.say(lease, BEGUN, STARTED) is None
    before = events(admin, lease)
    report = {"lease": lease, "number": 1, "facts": [BEGUN, STARTED], "is_retry": True}

    reply = worker.send_all([report]).body["replies"][0]

    assert (reply["duplicate"], reply["error"]) == (True, None)
    assert events(admin, lease) == before


@pytest.mark.parametrize("again", [True, False])
def test_a_number_is_not_used_for_something_else(
    admin: Api, worker: Worker, lease: dict[str, Any], again: bool
) -> None:
    """Row 72: under a lease that is held."""
    assert worker.say(lease, BEGUN, STARTED) is None
    before = events(admin, lease)
    facts = [BEGUN, {**STARTED, "attempt": 2}]
    report = {"lease": lease, "number": 1, "facts": facts, "is_retry": again}

    reply = worker.send_all([report]).body["replies"][0]

    assert (reply["duplicate"], reply["error"][0]) == (False, "event.id_reused")
    assert "report 1" in reply["error"][1]
    assert events(admin, lease) == before
    assert worker.say(lease, done(), number=2) is None, "and the run goes on"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, None),
        ({"outcome": {"status": "ok", "result": 2}}, "event.id_reused"),
        ({"directive": {"do": "fail"}, "error": FAILURE}, "event.id_reused"),
        ({"set_ctx": {"x": 1}}, "event.id_reused"),
    ],
)
def test_a_repeated_report_cannot_change_the_recorded_ending(
    admin: Api,
    worker: Worker,
    lease: dict[str, Any],
    changes: dict[str, Any],
    kind: str | None,
) -> None:
    """Row 72: under a lease that ended with it."""
    assert worker.say(lease, BEGUN, STARTED, done()) is None
    before = events(admin, lease)
    facts = [BEGUN, STARTED, done(**changes)]
    report = {"lease": lease, "number": 1, "facts": facts, "is_retry": True}

    reply = worker.send_all([report]).body["replies"][0]

    assert reply["duplicate"] == (kind is None)
    assert (reply["error"] or [None])[0] == kind
    assert events(admin, lease) == before


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([BEGUN, done()], id="an end without a beginning"),
        pytest.param([BEGUN, {**STARTED, "attempt": 7}], id="the seventh attempt"),
        pytest.param([BEGUN, {**STARTED, "label": "other"}], id="another task"),
        pytest.param([BEGUN, STARTED, {**done(), "attempt": 2}], id="another attempt"),
        pytest.param([BEGUN, STARTED, done(), done()], id="twice"),
    ],
)
def test_what_cannot_have_happened_is_refused(
    admin: Api, worker: Worker, lease: dict[str, Any], facts: list[Any]
) -> None:
    """Row 73."""
    before = events(admin, lease)

    assert worker.say(lease, *facts) == "event.order"
    assert events(admin, lease) == before


@pytest.mark.parametrize("ts", ["1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "x"])
def test_a_workers_clock_is_only_what_it_claims(
    admin: Api, worker: Worker, lease: dict[str, Any], ts: str
) -> None:
    """Row 74."""
    meta = {"attempt": 1, "started_at": ts, "ts": ts, "duration_ms": -5.0}
    outcome = {**GOOD["outcome"], "meta": meta}

    assert worker.say(lease, BEGUN, STARTED, done(outcome=outcome)) is None

    path = f"/api/executions/{execution_of(lease)}"
    found = {e["name"]: e for e in admin.get(f"{path}/events").body["events"]}
    assert found["task.done"]["payload"]["outcome"]["meta"]["ts"] == ts
    times = [event["timestamp"] for event in admin.get(f"{path}/events").body["events"]]
    assert times == sorted(times)
    assert times[-1] < "2900"
    assert admin.get(path).body["duration_ms"] >= 0


def test_too_much_is_refused_and_says_what_to_do(
    admin: Api, worker: Worker, lease: dict[str, Any]
) -> None:
    """Row 75."""
    before = events(admin, lease)
    large = {"status": "ok", "result": "x" * 500_000}
    failure = {"kind": "x", "message": "m" * 1_000_000}
    for outcome in (large, {"status": "error", "result": None, "error": failure}):
        answer = worker.send(lease, BEGUN, STARTED, done(outcome=outcome))
        assert (answer.status, answer.body["kind"]) == (413, "event.too_large")
        assert "send a reference" in answer.body["message"]
    huge = {"status": "ok", "result": "x" * 5_000_000}
    assert worker.send(lease, BEGUN, done(outcome=huge)).status == 413
    many = [{"lease": lease, "number": n + 1, "facts": []} for n in range(501)]
    answer = worker.send_all(many)
    assert (answer.status, answer.body["kind"]) == (413, "event.too_large")
    assert events(admin, lease) == before


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"outcome": {}}, id="nothing"),
        pytest.param({"outcome": "ok"}, id="a text"),
        pytest.param({"outcome": {"status": "maybe", "result": 1}}, id="maybe"),
        pytest.param({"outcome": {"status": "ok"}}, id="no result"),
        pytest.param({"outcome": {"status": "error", "result": None}}, id="no error"),
        pytest.param(
            {"outcome": {"status": "error", "result": None, "error": {"message": "x"}}},
            id="no kind",
        ),
        pytest.param({"directive": {}}, id="no directive"),
        pytest.param({"directive": {"do": "explode"}}, id="another directive"),
        pytest.param({"directive": {"do": "retry", "delay": -1}}, id="into the past"),
        pytest.param({"directive": {"do": "fail"}}, id="failed for no reason"),
        pytest.param({"set_ctx": "x"}, id="a patch that is none"),
        pytest.param({"set_iter": [1]}, id="another patch that is none"),
    ],
)
def test_an_outcome_that_is_none_is_refused(
    admin: Api, worker: Worker, lease: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Row 76: and the run goes on with a good one."""
    before = events(admin, lease)

    answer = worker.send(lease, BEGUN, STARTED, done(**changes))

    assert (answer.status, answer.body["kind"]) == (422, "outcome.shape")
    assert events(admin, lease) == before
    assert worker.say(lease, BEGUN, STARTED, done()) is None


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"on": "nothing"},
        {"on": "signal"},
        {"on": "playbook"},
        {"on": "playbook", "child": {"path": "x"}},
        {"on": "timer", "until": "soon"},
        {"on": "delay", "seconds": -1},
    ],
)
def test_a_wait_that_is_none_is_refused(
    worker: Worker, lease: dict[str, Any], payload: dict[str, Any]
) -> None:
    """Row 76."""
    fact = {**STARTED, "name": "task.suspended", "payload": payload}

    answer = worker.send(lease, BEGUN, STARTED, fact)

    assert (answer.status, answer.body["kind"]) == (422, "outcome.shape")


def test_a_wakeup_message_only_wakes_and_carries_no_facts(
    tmp_path: Path, postgres: str, start_nats: Callable[..., NatsServer]
) -> None:
    """Row 77: forged, garbage, large, of pools that do not exist."""
    bell = start_nats()
    server = Running(tmp_path / "home", database=postgres, nats=bell.address, slots=0)
    try:
        api = Api(server.url, server.token)
        asyncio.run(_ring(bell.address))
        assert Worker(api).claim() == [], "there is no work without the server"
        execution_id = api.start(HELLO)
        (lease,) = Worker(api).claim()
        assert execution_of(lease) == execution_id
    finally:
        server.stop()


async def _ring(address: str) -> None:
    client = await nats.connect(address)
    for subject in (f"{WAKEUPS}.default", f"{WAKEUPS}.nobody", f"{WAKEUPS}.x.y"):
        for data in (b"", b"\xff\x00garbage", b'{"command_id": "x-1"}', b"x" * 900_000):
            await client.publish(subject, data)
    await client.flush()
    await client.close()


def test_a_worker_that_claims_too_often_gets_429(tmp_path: Path) -> None:
    """Row 78: and others are not concerned."""
    server = Running(tmp_path / "home", slots=0, claim_rate=0.5)
    try:
        api = Api(server.url, server.token)
        body = {"worker": "w-1", "pool": "default", "slots": 1, "protocol": PROTOCOL}
        answers = [api.post("/api/worker/claim", body) for _ in range(20)]
        assert {answer.status for answer in answers} == {200, 429}
        assert answers[-1].body["kind"] == "request.rate"
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert Worker(api, "w-2").claim() == []
    finally:
        server.stop()


def test_every_row_from_53_to_79_has_a_test() -> None:
    """By name, in the docstring of a test of the API or of hostile input."""
    folder = Path(__file__).parents[1]
    text = "".join(
        file.read_text()
        for part in ("api", "hostile", "cluster")
        for file in (folder / part).glob("test_*.py")
    )
    named: set[int] = set()
    for found in re.findall(r"[Rr]ows? (\d+)(?: and (\d+))?", text):
        named |= {int(number) for number in found if number}

    assert set(range(53, 80)) <= named
