"""The live view without a terminal: events in, rows and words out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from noetl.commands.output.live.model import Board, read_wait
from noetl.commands.output.live.rows import (
    Activity,
    Pace,
    activity_words,
    clock,
    local_moment,
    one_line,
    queue_words,
    rate,
)
from noetl.commands.output.live.terminal import Frame, bar, branches, headline
from noetl.engine.events import Event
from noetl.report.format import duration
from noetl.runtime.worker.executor import SlotUse

START = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
NOW = START.timestamp()
CHILD = {"execution_id": "0192", "path": "examples/child"}


def event(name: str, at: float = 0.0, **fields: Any) -> Event:
    moment = START + timedelta(seconds=at)
    return Event(
        event_id="e",
        execution_id="x",
        seq=1,
        timestamp=moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        source="server",
        name=name,
        entity_type="step",
        parent_id=None,
        entity_id="x",
        status="in_progress",
        **fields,
    )


def of_run(name: str, at: float = 0.0, *, run: int = 1, **fields: Any) -> Event:
    return event(name, at, step="fetch", step_run_id=f"x-{run}", **fields)


def of_task(name: str, at: float = 0.0, **fields: Any) -> Event:
    return of_run(name, at, task_label="call", **{"attempt": 1, **fields})


def of_iteration(name: str, *path: int, **fields: Any) -> Event:
    return of_run(name, iteration_id="/".join(["x-1", *map(str, path)]), **fields)


def retried(at: float, attempt: int, delay: float, message: str = "503") -> Event:
    payload = {
        "outcome": {"error": {"message": message}},
        "directive": {"do": "retry", "attempts": 5, "delay": delay},
    }
    return of_task("task.done", at, attempt=attempt, payload=payload)


def suspended(at: float = 0.0, **payload: Any) -> Event:
    empty = {"on": None, "until": None, "signal": None, "child": None}
    return of_task("task.suspended", at, payload={**empty, **payload})


def drawn(board: Board, now: float = 0.0, room: int | None = None) -> list[str]:
    """The tree as text: a step per line, what is below it indented."""
    lines = []
    for branch in branches(board, Frame(NOW + now, UTC), room):
        lines.append("".join(text for text, _ in branch.line))
        lines += ["  " + "".join(t for t, _ in line) for line in branch.below]
    return lines


def board_of(*events: Event) -> Board:
    board = Board()
    board.take(events)
    return board


# -- steps and tasks -------------------------------------------------------------


def test_a_step_shows_its_task_and_how_long_it_runs() -> None:
    board = board_of(of_run("step.scheduled"), of_task("task.started", 1.0))

    assert drawn(board, 1.5) == ["⠹ fetch  1.50 s  call"]


@pytest.mark.parametrize(
    ("name", "payload", "line"),
    [
        ("step.done", {"result": 1}, "✓ fetch  2.00 s"),
        (
            "step.failed",
            {"error": {"message": "no\nroute"}},
            "✗ fetch  2.00 s  no route",
        ),
    ],
)
def test_a_step_that_is_over_shows_how_it_ended(
    name: str, payload: Any, line: str
) -> None:
    end = of_run(name, 2.0, payload=payload)
    board = board_of(of_run("step.scheduled"), of_task("task.started"), end)

    assert drawn(board, 60) == [line]


def test_a_step_that_was_not_admitted_says_so() -> None:
    assert drawn(board_of(event("step.skipped", step="fetch"))) == [
        "- fetch  not admitted"
    ]


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (1.5, "attempt 3 of 5 in 3.00 s: 503"),
        (4.46, "attempt 3 of 5 in 40 ms: 503"),
        (9.0, "attempt 3 of 5 queued: 503"),
    ],
)
def test_a_retry_shows_why_and_when(now: float, words: str) -> None:
    board = board_of(of_run("step.scheduled"), retried(0.5, 2, 4.0))

    assert drawn(board, now) == [f"◷ fetch  {duration(now)}  call: {words}  1 retry"]


def test_the_next_attempt_ends_the_countdown() -> None:
    board = board_of(
        of_run("step.scheduled"), retried(0, 1, 4), of_task("task.started", attempt=2)
    )

    assert drawn(board) == ["⠋ fetch  0 ms  call, attempt 2  1 retry"]


def test_the_delay_of_a_retry_keeps_its_reason() -> None:
    due = "2026-11-15T12:00:10Z"
    board = board_of(
        of_run("step.scheduled"),
        retried(0, 1, 4),
        suspended(on="delay", until=due),
        of_task("task.resumed"),
    )

    [line] = drawn(board, 1)

    assert "call: attempt 2 of 5 in 9.00 s: 503" in line


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        pytest.param(
            {"on": "signal", "signal": "approve"},
            "call waits for signal 'approve'",
            id="a signal",
        ),
        pytest.param(
            {"on": "signal", "signal": "a", "until": "2026-11-15T12:01:00Z"},
            "call waits for signal 'a', until 12:01:00 (in 59.0 s)",
            id="a signal that may not come",
        ),
        pytest.param(
            {"on": "timer", "until": "2026-11-15T12:00:03Z"},
            "call waits until 12:00:03 (in 2.00 s)",
            id="a time",
        ),
        pytest.param(
            {"on": "timer", "until": "2026-11-18T12:00:03Z"},
            "call waits until 2026-11-18 12:00:03 (in 3 d 0 h)",
            id="a day",
        ),
        pytest.param(
            {"on": "playbook", "child": CHILD},
            "call runs playbook examples/child (0192)",
            id="a child playbook",
        ),
        pytest.param({"on": "moon"}, "call waits", id="what we do not know yet"),
    ],
)
def test_a_wait_says_for_what(payload: dict[str, Any], words: str) -> None:
    board = board_of(of_run("step.scheduled"), suspended(**payload))

    assert drawn(board, 1) == [f"◷ fetch  1.00 s  {words}"]
    assert activity_words(read_wait(suspended(**payload)), NOW + 1, UTC) == words


def test_what_is_resumed_works_again() -> None:
    board = board_of(
        of_run("step.scheduled"), suspended(on="signal"), of_task("task.resumed")
    )

    assert drawn(board) == ["⠋ fetch  0 ms  call"]


# -- many runs -------------------------------------------------------------------


def test_a_step_of_a_cycle_takes_one_row_however_often_it_runs() -> None:
    board = Board()
    sizes = []
    for run in range(1, 2001):
        begun = of_run("step.scheduled", run, run=run)
        task = of_task("task.started", run, run=run)
        board.take([begun, task, of_run("step.done", run + 0.5, run=run, payload={})])
        sizes.append(size(board))

    assert sizes[-1] == pytest.approx(sizes[9], abs=8)
    assert drawn(board) == ["✓ fetch  2,000 runs of 500 ms"]


def test_runs_at_the_same_time_are_counted() -> None:
    board = board_of(
        *(of_run("step.scheduled", run=run) for run in (1, 2, 3)),
        *(of_task("task.started", run=run) for run in (1, 2)),
        of_run("step.failed", 4.0, run=3, payload={"error": {"message": "no"}}),
    )

    assert drawn(board, 5) == ["⠋ fetch  1 run of 4.00 s, 2 open  2 at work"]


def size(board: Board) -> int:
    """How much the board holds, in characters."""
    rows = [msgspec.structs.asdict(row) for row in board.rows.values()]
    for row in rows:
        row["levels"] = [(x.total, x.done, x.failed) for x in row["levels"]]
    return len(str(rows))


# -- loops -----------------------------------------------------------------------


def loop(total: int) -> Board:
    started = of_run("loop.started", payload={"total": total})
    return board_of(of_run("step.scheduled"), started)


def iteration(number: int, *, failed: bool = False) -> list[Event]:
    end = "loop.iteration.failed" if failed else "loop.iteration.done"
    payload = {"error": {"message": "no"}} if failed else {"result": None}
    directive = {"directive": {"do": "continue"}, "outcome": {}}
    return [
        of_iteration("loop.iteration.started", number, payload={"item": number}),
        of_iteration("task.started", number, task_label="call", attempt=1),
        of_iteration("task.done", number, task_label="call", payload=directive),
        of_iteration(end, number, payload=payload),
    ]


def test_a_loop_is_a_bar_with_counts() -> None:
    board = loop(200)
    for number in range(50):
        board.take(iteration(number, failed=number == 7))

    assert drawn(board) == [
        "⠋ fetch  ━━━━━───────────────  25%  50 of 200, 1 failed",
    ]


@pytest.mark.spec("S-38")
def test_iterations_that_a_cancellation_stops_are_counted_apart() -> None:
    board = loop(4)
    board.take(iteration(0, failed=True))
    board.take([event("workflow.cancelled")])
    board.take(iteration(1, failed=True))

    assert drawn(board) == [
        "⠋ fetch  ━━━━━━━━━━──────────  50%  2 of 4, 1 failed, 1 cancelled",
    ]


def test_a_loop_tells_its_rate_and_what_is_left() -> None:
    board = loop(200)
    board.tick(NOW)
    for number in range(50):
        board.take(iteration(number))

    [line] = drawn(board, 2)

    assert line.endswith("50 of 200  25.0/s, 6.00 s left")


def test_a_loop_that_is_over_tells_how_fast_it_was() -> None:
    board = loop(4)
    for number in range(4):
        board.take(iteration(number))
    board.take([of_run("step.done", 8.0, payload={})])

    assert drawn(board) == [
        "✓ fetch  ━━━━━━━━━━━━━━━━━━━━ 100%  4 of 4  8.00 s, 0.50/s"
    ]


def test_an_empty_loop_is_full() -> None:
    assert drawn(loop(0)) == ["⠋ fetch  ━━━━━━━━━━━━━━━━━━━━ 100%  0 of 0"]


def test_a_long_loop_takes_no_more_memory_than_a_short_one() -> None:
    board = loop(1_000_000)
    sizes = []
    for number in range(3_000):
        board.take(iteration(number, failed=number % 10 == 0))
        sizes.append(size(board))

    assert sizes[-1] == pytest.approx(sizes[9], abs=8)


def test_inner_loops_are_counted_by_their_depth() -> None:
    board = loop(2)
    board.take(
        [
            of_iteration("loop.started", 0, payload={"total": 3}),
            of_iteration("loop.iteration.done", 0, 0, payload={}),
            of_iteration("loop.iteration.done", 0, 1, payload={}),
        ]
    )

    assert drawn(board) == [
        "⠋ fetch  ────────────────────   0%  0 of 2",
        "  level 2: 2 of 3",
    ]


def test_waiting_iterations_are_listed_a_few_at_a_time() -> None:
    board = loop(10)
    for number in range(5):
        payload = {"on": "signal", "signal": f"s{number}"}
        board.take(
            [of_iteration("task.suspended", number, task_label="ask", payload=payload)]
        )

    assert drawn(board) == [
        "◷ fetch  ────────────────────   0%  0 of 10",
        "  [0] ask waits for signal 's0'",
        "  [1] ask waits for signal 's1'",
        "  [2] ask waits for signal 's2'",
        "  … 2 more wait",
    ]


# -- the whole -------------------------------------------------------------------


def test_one_more_waiting_iteration_is_in_the_singular() -> None:
    board = loop(10)
    payload = {"on": "signal", "signal": "go"}
    fields = {"task_label": "ask", "payload": payload}
    for number in range(4):
        board.take([of_iteration("task.suspended", number, **fields)])

    assert drawn(board)[-1] == "  … 1 more waits"


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (80, "━━━━━───────────────  25%  50 of 200  25.0/s, 6.00 s left"),
        (64, "━──────  25%  50 of 200  25.0/s, 6.00 s left"),
        (61, "━───  25%  50 of 200  25.0/s, 6.00 s left"),
        (60, "━━─────────  25%  50 of 200  6.00 s left"),
        (20, "━───  25%  50 of 200  6.00 s left"),
    ],
)
def test_in_few_columns_the_bar_shrinks_and_the_rate_goes_first(
    columns: int, line: str
) -> None:
    board = loop(200)
    board.tick(NOW)
    for number in range(50):
        board.take(iteration(number))
    for number in (50, 51):
        board.take(iteration(number)[:2])

    [branch] = branches(board, Frame(NOW + 2, UTC, columns=columns))
    text = "".join(piece for piece, _ in branch.line)

    assert text == f"⠦ fetch  {line}  2 at work"
    assert len(text) <= max(columns, 53)


@pytest.mark.parametrize(("still", "signs"), [(False, "‖⠋"), (True, "‖‖")])
def test_a_pause_is_shown_at_steps_that_have_stopped(still: bool, signs: str) -> None:
    board = board_of(
        of_run("step.scheduled"),
        event("step.scheduled", step="other", step_run_id="x-9"),
        event("task.started", step="other", step_run_id="x-9", task_label="call"),
        event("workflow.paused"),
    )

    found = branches(board, Frame(NOW, UTC, paused=True, still=still))

    assert "".join(branch.line[0][0][0] for branch in found) == signs


def test_the_last_picture_of_an_open_execution_has_no_spinner() -> None:
    board = board_of(of_run("step.scheduled"), of_task("task.started"))

    [branch] = branches(board, Frame(NOW, UTC, still=True))

    assert branch.line[0][0] == "… "


def whole(board: Board, now: float = 0.0) -> str:
    return "".join(text for text, _ in headline(board, NOW + now))


def test_the_headline_follows_the_execution() -> None:
    about = {"playbook": {"name": "orders", "path": "etl/orders"}}
    board = board_of(event("playbook.execution.requested", payload=about))
    assert whole(board, 3) == "etl/orders  running  3.00 s  x"
    board.take([of_run("step.scheduled"), suspended(on="signal", signal="go")])
    assert whole(board, 3) == "etl/orders  waiting  3.00 s  x"
    board.take([of_task("task.resumed"), event("workflow.paused")])
    assert "  paused  3.00 s  running tasks finish" in whole(board, 3)
    board.take([event("workflow.resumed"), event("workflow.cancelled")])
    assert "  cancelling  3.00 s" in whole(board, 3)
    end = {"status": "cancelled", "error": {"message": "stop"}, "result": None}
    board.take([event("workflow.finished", 4.0, payload=end)])
    assert whole(board, 99) == "etl/orders  cancelled  4.00 s  x"


def test_open_steps_come_before_those_that_are_over_where_room_is_short() -> None:
    board = Board()
    for number in range(30):
        step = {"step": f"s{number}", "step_run_id": f"x-{number}"}
        board.take([event("step.scheduled", **step)])
        if number != 3:
            board.take([event("step.done", payload={}, **step)])

    lines = drawn(board, room=4)

    assert [line.split()[1] for line in lines] == ["27", "s3", "s28", "s29"]
    assert lines[0] == "… 27 more steps: 27 finished"
    assert len(drawn(board)) == 30


def test_a_screen_too_small_for_what_is_open_counts_it() -> None:
    board = Board()
    for number in range(9):
        step = {"step": f"s{number}", "step_run_id": f"x-{number}"}
        board.take([event("step.scheduled", **step)])

    assert drawn(board, room=3)[0] == "… 7 more steps: 7 open"


def test_events_of_unknown_names_change_nothing() -> None:
    assert drawn(board_of(event("moon.full", step="fetch"))) == []


# -- words -----------------------------------------------------------------------


def test_a_time_far_away_has_a_date() -> None:
    assert clock(NOW + 3, NOW, UTC) == "12:00:03"
    assert clock(NOW + 86_400, NOW, UTC) == "2026-11-16 12:00:00"
    berlin = timezone(timedelta(hours=1), "CET")
    assert local_moment(NOW, berlin) == "2026-11-15 13:00:00 CET"


@pytest.mark.parametrize(
    ("number", "words"),
    [(0.2, "0.20/s"), (5.25, "5.2/s"), (12_345.6, "12,346/s")],
)
def test_rates_have_as_many_digits_as_they_deserve(number: float, words: str) -> None:
    assert rate(number) == words


def test_what_others_say_fits_on_a_line_and_cannot_harm() -> None:
    assert one_line("a\n\tb\x1b[2J") == "a b\ufffd[2J"
    assert one_line("password: hunter2hunter2") == "password: ***"
    assert len(one_line("x" * 10_000)) == 161


def test_a_rate_is_that_of_the_last_seconds() -> None:
    pace = Pace()
    assert pace.rate(0, 0) is None
    for second in range(100):
        pace.note(second, 10 * second)
    assert pace.rate(99.5, 1040) == pytest.approx((1040 - 800) / 19.5)


def test_a_rate_needs_some_time() -> None:
    pace = Pace()
    pace.note(10, 5)
    assert pace.rate(10.2, 50) is None
    assert pace.rate(11, 50) == 45


@pytest.mark.parametrize(
    ("share", "full"), [(0, 0), (0.49, 9), (0.999, 19), (1, 20), (3, 20)]
)
def test_a_bar_is_full_only_at_the_end(share: float, full: int) -> None:
    assert bar(share) == ("━" * full, "─" * (20 - full))


def test_a_first_attempt_is_only_its_task() -> None:
    assert activity_words(Activity("call", 1), NOW) == "call"


@pytest.mark.spec("S-73")
def test_a_step_with_an_ignored_error_is_amber() -> None:
    payload = {
        "outcome": {"error": {"kind": "timeout", "message": "too slow"}},
        "directive": {"do": "continue"},
        "ignored": True,
    }
    board = board_of(
        of_run("step.scheduled"),
        of_task("task.started"),
        of_task("task.done", 1.0, payload=payload),
        of_run("step.done", 2.0, payload={"result": None}),
    )
    [branch] = branches(board, Frame(NOW + 60, UTC))

    assert drawn(board, 60) == [
        "! fetch  2.00 s  1 error ignored: timeout: too slow",
    ]
    assert branch.line[0] == ("! ", "yellow")


@pytest.mark.spec("S-74")
def test_a_step_after_which_no_arc_fired_is_amber() -> None:
    payload = {
        "on": "step.done",
        "arcs": [{"step": "b", "fired": False, "why": "its guard is false"}],
        "fired": [],
        "unfired": ["b"],
    }
    board = board_of(
        of_run("step.scheduled"),
        of_run("step.done", 2.0, payload={"result": None}),
        of_run("next.evaluated", 2.0, payload=payload),
    )

    assert drawn(board, 60) == [
        "! fetch  2.00 s  no arc fired (b: its guard is false)",
    ]


@pytest.mark.spec("S-73")
def test_a_loop_that_failed_in_part_is_amber() -> None:
    errors = [{"index": 1, "kind": "timeout", "message": "too slow"}]
    payload = {
        "total": 2,
        "failed": 1,
        "errors": errors,
        "error_kinds": {"timeout": 1},
    }
    board = board_of(
        of_run("step.scheduled"),
        of_run("loop.started", payload={"total": 2}),
        of_run("loop.done", 1.0, payload=payload),
        of_run("step.done", 2.0, payload={"result": None}),
    )
    [branch] = branches(board, Frame(NOW + 60, UTC))

    assert branch.line[0] == ("! ", "yellow")
    assert branch.line[-1] == ("  1 \u00d7 timeout: [1] too slow", "yellow")


@pytest.mark.spec("S-79")
def test_a_step_of_which_nothing_runs_is_queued_while_all_slots_are_busy() -> None:
    board = Board()
    board.take([of_run("step.scheduled", payload={"tokens": [], "args": {}})])
    row = board.rows["fetch"]
    use = SlotUse(["x-2", "x-3/0"], busy=2, slots=2)
    board.queues = lambda row: queue_words(row, use)
    board.tick(NOW + 4)
    line = "".join(text for text, _ in branches(board, Frame(NOW + 4))[0].line)

    assert line.endswith("queued, 2 of 2 slots busy")
    assert queue_words(row, SlotUse(["x-1/0"], busy=2, slots=2)) == ""
    assert queue_words(row, SlotUse(["x-2"], busy=1, slots=2)) == ""
