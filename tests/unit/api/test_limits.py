"""How much of a server callers may hold: limits, quotas, connections."""

from __future__ import annotations

import msgspec
import pytest

from noetl.api.http.problems import Problem
from noetl.api.http.quotas import Connections, Quota, keep, limits_for, release
from noetl.wiring.server_options import Limits


class Peer:
    """A connection that remembers whether it was dropped."""

    def __init__(self, busy: bool = False) -> None:
        self.busy = busy
        self.dropped = False

    def is_busy(self) -> bool:
        return self.busy

    def drop(self) -> None:
        self.dropped = True


@pytest.mark.parametrize("descriptors", [0, 64, 256, 1024, 20_000, 1 << 30])
def test_held_answers_leave_connections_free_for_others(descriptors: int) -> None:
    limits = limits_for(descriptors)

    assert limits.streams + limits.claims <= limits.connections * 3 // 4
    assert limits.streams_of_caller <= limits.streams // 4 or limits.streams < 8
    assert limits.connections <= max(32, descriptors * 3 // 4)
    assert min(msgspec.structs.astuple(limits)) >= 1


def test_a_process_with_few_descriptors_keeps_some_for_itself() -> None:
    """One viewer once took 193 of 256."""
    limits = limits_for(256)

    assert limits == Limits(
        connections=96,
        connections_of_address=48,
        streams=36,
        streams_of_caller=9,
        claims=36,
        claims_of_caller=18,
    )


def test_a_quota_counts_each_caller_and_all() -> None:
    quota = Quota("things", 5, 3)
    give_back = quota.take("a", 3)
    with pytest.raises(Problem) as mine:
        quota.take("a")
    quota.take("b", 2)
    with pytest.raises(Problem) as theirs:
        quota.take("c")
    give_back()
    quota.take("c")

    assert (mine.value.status, theirs.value.status) == (429, 503)
    assert mine.value.headers["Retry-After"] == "1"
    assert (quota.total, quota.refused) == (3, 2)


def test_the_quota_of_a_request_is_released_once() -> None:
    quota, scope = Quota("things", 9, 9), {}
    keep(scope, quota.take("a"))
    keep(scope, quota.take("a"))
    release(scope)
    release(scope)

    assert quota.total == 0


def test_the_oldest_idle_connection_of_an_address_makes_room() -> None:
    connections = Connections(10, 2)
    busy, idle, third = Peer(busy=True), Peer(), Peer()
    assert connections.admit(busy, "a")
    assert connections.admit(idle, "a")

    assert connections.admit(third, "a")
    assert (busy.dropped, idle.dropped, third.dropped) == (False, True, False)
    connections.forget(idle, "a")  # it was closed by then
    assert len(connections) == 2


def test_without_an_idle_one_a_connection_is_refused() -> None:
    connections = Connections(3, 2)
    for _ in range(2):
        assert connections.admit(Peer(busy=True), "a")

    assert not connections.admit(Peer(), "a")
    assert connections.admit(Peer(busy=True), "b")
    assert not connections.admit(Peer(), "c")
    assert (len(connections), connections.refused) == (3, 2)


def test_who_has_most_connections_gives_way_to_others() -> None:
    connections = Connections(4, 4)
    mine, theirs = [Peer() for _ in range(3)], Peer()
    assert connections.admit(theirs, "b")
    for each in mine:
        connections.admit(each, "a")

    assert connections.admit(Peer(), "c")
    assert [each.dropped for each in (*mine, theirs)] == [True, False, False, False]


def test_idle_connections_of_anyone_give_way_to_a_newcomer() -> None:
    connections = Connections(3, 2)
    idle = Peer()
    for _ in range(2):
        connections.admit(Peer(busy=True), "a")
    connections.admit(idle, "b")

    assert connections.admit(Peer(), "c")
    assert idle.dropped


def test_a_proxy_brings_as_many_as_there_is_room_for() -> None:
    connections = Connections(5, 1, lambda address: address == "proxy")

    assert all(connections.admit(Peer(busy=True), "proxy") for _ in range(5))
    assert not connections.admit(Peer(), "proxy")
