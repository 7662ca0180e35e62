"""Lines of iterations: time, errors in groups, what is left."""

from __future__ import annotations

from noetl.engine.events import Event
from noetl.report.loop_lines import MAX_BUCKETS, MAX_GROUPS, LoopLines

RUN = "x-1"


class Log:
    """Events of one loop at chosen times, in milliseconds."""

    def __init__(self, total: int, items: object = None) -> None:
        self.lines = LoopLines(RUN, 0)
        self._seq = 0
        self.add(0, "loop.started", None, total=total, items=items)

    def add(self, ms: float, name: str, index: int | None, **payload: object) -> None:
        self._seq += 1
        seconds, rest = divmod(round(ms * 1_000), 1_000_000)
        minutes, seconds = divmod(seconds, 60)
        self.lines.take(
            Event(
                *(f"x.{self._seq}", "x", self._seq),
                f"2026-11-19T00:{minutes:02}:{seconds:02}.{rest:06}Z",
                *("server", name, "loop", RUN, RUN, "success"),
                step_run_id=RUN,
                iteration_id=None if index is None else f"{RUN}/{index}",
                payload=payload,
            )
        )

    def run(self, index: int, begin: float, end: float, error: str = "") -> None:
        self.add(begin, "loop.iteration.started", index, item=index)
        if error:
            problem = {"kind": "http.status", "message": error}
            self.add(end, "loop.iteration.failed", index, error=problem)
        else:
            self.add(end, "loop.iteration.done", index, result=1, size=1)


def test_the_rate_is_that_of_the_last_tenth() -> None:
    log = Log(3_000)
    for index in range(100):
        log.run(index, index * 100, index * 100 + 50)  # 10 a second
    for index in range(100, 1_100):
        log.run(index, 10_000 + index, 10_000 + index + 1)  # 1,000 a second

    assert log.lines.rate() is not None
    assert 800 < (log.lines.rate() or 0) < 1_100
    assert 1_500 < (log.lines.eta_ms() or 0) < 2_600


def test_buckets_stay_few_and_lose_nothing() -> None:
    log = Log(5_000)
    for index in range(5_000):
        log.run(index, index * 37, index * 37 + 90, "no" if index % 10 == 0 else "")

    buckets = list(log.lines.buckets)

    assert MAX_BUCKETS / 2 <= len(buckets) <= MAX_BUCKETS
    assert sum(each.done for each in buckets) == 4_500
    assert sum(each.failed for each in buckets) == 500
    assert all(0 <= each.in_flight <= 4 for each in buckets)
    assert buckets[-1].in_flight == 0


def test_errors_that_differ_in_numbers_are_one_group() -> None:
    log = Log(20)
    for index in range(4):
        log.run(index, index, index + 1, f"404 from /orders/{index * 17}")
    log.run(9, 20, 21, "timeout")

    groups = list(log.lines.groups.values())

    assert [(each.count, each.first, each.message) for each in groups] == [
        (4, 0, "404 from /orders/0"),
        (1, 9, "timeout"),
    ]


def test_many_kinds_of_errors_end_in_one_group() -> None:
    log = Log(100)
    for index in range(100):
        log.run(index, index, index + 1, "x" * (index + 1))

    groups = list(log.lines.groups.values())

    assert len(groups) == MAX_GROUPS
    assert groups[-1].message == "other errors"
    assert sum(each.count for each in groups) == 100


def test_elements_of_lists_and_ranges_are_known_without_their_events() -> None:
    numbers = Log(4, {"start": 3, "stop": 11, "step": 2}).lines
    names = Log(2, ["a", {"b": 1}]).lines
    stored = Log(2, {"$ref": "elsewhere"}).lines

    assert [numbers.value(index) for index in (0, 3)] == [(True, 3), (True, 9)]
    assert names.value(1) == (True, {"b": 1})
    assert names.value(7) == (False, None)
    assert stored.value(0) == (False, None)
