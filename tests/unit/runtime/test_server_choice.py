"""Which of several servers a worker asks about an execution."""

from __future__ import annotations

from noetl.embedded import new_execution_id
from noetl.runtime.worker.server_connection import SKIP_SECONDS, ServerChoice

IDS = (0xA01, 0xB02)
SERVERS = ("http://a", "http://b/")
KNOWN = {"http://a": "a01", "http://b": "b02"}


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def chosen(choice: ServerChoice, server_id: int) -> set[str]:
    return {choice.for_execution(new_execution_id(server_id)) for _ in range(50)}


def test_the_server_that_accepted_an_execution_is_asked() -> None:
    choice = ServerChoice(SERVERS, KNOWN, Clock())

    assert [chosen(choice, each) for each in IDS] == [{"http://a"}, {"http://b"}]


def test_workers_agree_about_executions_of_an_unknown_server() -> None:
    one = ServerChoice(SERVERS, KNOWN, Clock())
    two = ServerChoice(SERVERS[::-1], KNOWN, Clock())
    others = [new_execution_id(0xC03) for _ in range(50)]

    servers = [one.for_execution(each) for each in others]
    assert set(servers) == {"http://a", "http://b"}
    assert [two.for_execution(each) for each in others] == servers


def test_a_server_that_has_not_answered_yet_may_have_accepted_it() -> None:
    choice = ServerChoice(SERVERS, {"http://a": "a01"}, Clock())

    assert chosen(choice, IDS[1]) == {"http://b"}


def test_a_server_that_does_not_answer_is_skipped_for_a_while() -> None:
    clock = Clock()
    choice = ServerChoice(SERVERS, KNOWN, clock)
    assert choice.current == "http://a"

    choice.skip("http://a")
    assert choice.current == "http://b"
    assert chosen(choice, IDS[0]) == {"http://b"}

    clock.time += SKIP_SECONDS
    assert chosen(choice, IDS[0]) == {"http://a"}
    assert choice.current == "http://b", "no reason to change it"


def test_servers_that_are_all_silent_are_asked_all_the_same() -> None:
    choice = ServerChoice(SERVERS, KNOWN, Clock())
    choice.skip("http://a")
    choice.skip("http://b")

    assert chosen(choice, IDS[0]) == {"http://a"}
