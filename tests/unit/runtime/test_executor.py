"""The executor and the runs of its pipelines: slots, lost leases, errors, limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from noetl.engine.tasks.outcome import Outcome
from noetl.errors import LeaseLost, Refused, StoreError, ToolError, Unreachable
from noetl.ports import Lease, ToolCall
from noetl.runtime.dispatcher import ReportAnswer
from noetl.runtime.worker import executor as module
from noetl.runtime.worker import pipeline_run, tool_call
from noetl.runtime.worker.executor import Executor
from noetl.runtime.worker.task_output import LogSender
from noetl.runtime.worker.tool_call import (
    Invocation,
    RunningCall,
    TimeLimit,
    is_passing,
    last_facts,
    limits_of,
)

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop}}"
LOOP = """
- step: start
  loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
  tool: {kind: noop}
"""


class Clock:
    """A clock whose sleeps end at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return 1_800_000_000.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


class Between:
    """Stands between an executor and its dispatcher: ``changes`` replace methods."""

    def __init__(self, inner: Any, **changes: Any) -> None:
        self.inner = inner
        self.__dict__.update(changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Tool:
    """A tool whose calls wait for ``open``; one that is ``stubborn`` ends late."""

    instant = False

    def __init__(self, *, opened: bool = True, stubborn: bool = False) -> None:
        self.open = asyncio.Event()
        if opened:
            self.open.set()
        self.calls: list[ToolCall] = []
        self.stopped = 0
        self.error: BaseException | None = None
        self.effect = True
        self._stubborn = stubborn

    async def run(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        if call.output is not None:
            call.output.write("stdout", b"hello\n")
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            if not self._stubborn:
                raise
            await self.open.wait()
        if self.error is not None:
            raise self.error
        return Outcome.ok(1)

    def has_effect(self, call: ToolCall) -> bool:
        return self.effect

    async def close(self) -> None:
        pass


class Site:
    """One server, and an executor on what stands between them."""

    def __init__(
        self, cluster: Any, tool: Tool, *, slots: int = 2, **more: Any
    ) -> None:
        self.cluster, self.tool = cluster, tool
        self.clock = Clock()
        self.between = Between(cluster.server.assignment)
        options = {key: more.pop(key) for key in ("logs", "tool_time") if key in more}
        self.between.__dict__.update(more)
        dispatcher: Any = self.between
        self.executor = Executor(
            dispatcher, {"noop": tool}, self.clock, owner="w", slots=slots, **options
        )
        self.serving: asyncio.Task[None] | None = None

    async def serve(self, flow: str = ONE, **options: Any) -> None:
        await self.cluster.start(flow, **options)
        self.serving = asyncio.ensure_future(self.executor.serve())

    async def until(self, is_true: Callable[[], Any]) -> None:
        await self.cluster.until(lambda: bool(is_true()))

    async def finish(self) -> list[Any]:
        log: list[Any] = await self.cluster.finish()
        await self.close()
        return log

    async def close(self) -> None:
        assert self.serving is not None
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)


async def one_after_another(*answers: Any, then: Any = None) -> Any:
    """A method that gives these answers, or raises them, and then calls ``then``."""
    left = list(answers)

    async def answer(*args: Any, **more: Any) -> Any:
        if not left:
            return await then(*args, **more)
        found = left.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    return answer


def results(log: Sequence[Any]) -> list[Any]:
    done = (each.payload["outcome"] for each in log if each.name == "task.done")
    return [each["error"]["kind"] if each["error"] else each["result"] for each in done]


# -- claims -------------------------------------------------------------------------


async def test_a_claim_that_fails_is_made_again(
    make_cluster: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(make_cluster(), Tool())
    site.between.claim = await one_after_another(
        StoreError("no", "store.full"), KeyError("x"), then=site.between.inner.claim
    )
    await site.serve()

    assert results(await site.finish()) == [1]
    assert caplog.messages == [
        "work could not be claimed: StoreError: no",
        "work could not be claimed",
    ]
    assert module.CLAIM_RETRY_S in site.clock.slept


@pytest.mark.parametrize(
    ("alone", "error"),
    [(False, Refused("auth.role", "no")), (True, StoreError("no", "store.full"))],
)
async def test_a_claim_that_is_refused_ends_the_worker(
    make_cluster: Make, *, alone: bool, error: Exception
) -> None:
    cluster = make_cluster(pool="local") if alone else make_cluster()
    site = Site(cluster, Tool(), claim=await one_after_another(error))
    await site.serve()
    assert site.serving is not None

    with pytest.raises(type(error), match="no"):
        await site.serving


async def test_waits_run_while_all_slots_are_busy(
    make_cluster: Make, caplog: pytest.LogCaptureFixture
) -> None:
    tool = Tool(opened=False)
    site = Site(make_cluster(), tool, slots=1)
    claim, failures = site.between.inner.claim, [StoreError("no", "store.full")]

    async def claims(owner: str, slots: int, *, waits: bool = False) -> Any:
        if waits and failures:
            raise failures.pop()
        return await claim(owner, slots, waits=waits)

    site.between.claim = claims
    await site.serve()
    await site.until(lambda: tool.calls)
    assert site.executor.use.busy == 1
    assert site.executor.reserve() is None
    flow = "- {step: start, tool: [{w: {kind: wait, for: 0}}, {a: {kind: noop}}]}"
    await site.cluster.start(flow, execution_id="f")
    await site.until(lambda: "f-1" in site.executor.use.commands)
    tool.open.set()
    await site.until(lambda: len(tool.calls) == 2)

    await site.finish()
    assert "work could not be claimed: StoreError: no" in caplog.messages


async def test_a_reserved_slot_may_stay_empty(make_cluster: Make) -> None:
    site = Site(make_cluster(), Tool(), slots=1)
    assert site.executor.reserve() is None
    await site.serve()
    await site.finish()
    site.executor._serving = True

    assert site.executor.reserve() == "w"
    assert site.executor.reserve() is None
    site.executor.take(None)
    assert site.executor.reserve() == "w"


async def test_a_worker_that_retires_ends_what_runs(make_cluster: Make) -> None:
    tool = Tool(opened=False)
    site = Site(make_cluster(), tool)
    await site.serve()
    await site.until(lambda: tool.calls)
    retiring = asyncio.ensure_future(site.executor.retire())
    await asyncio.sleep(0)
    assert site.executor.reserve() is None
    tool.open.set()

    await retiring

    assert results(await site.finish()) == [1]


# -- leases -------------------------------------------------------------------------


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_command_does_not_run_twice_at_a_time(
    make_cluster: Make, *, stubborn: bool
) -> None:
    tool = Tool(opened=False, stubborn=stubborn)
    site = Site(make_cluster(), tool, ttl=0.05 if stubborn else 60.0)
    released: list[Lease] = []

    async def release(leases: Sequence[Lease]) -> None:
        released.extend(leases)
        asyncio.get_running_loop().call_soon(tool.open.set)

    site.between.release = release
    [work] = await claimed(site)
    later = Lease(work.lease.command_id, "e", "w", work.lease.epoch + 1)
    again = type(work)(
        **{**{name: getattr(work, name) for name in fields(work)}, "lease": later}
    )
    site.executor._serving = True
    site.executor._begin(work)
    await site.until(lambda: tool.calls)

    left = await site.executor._sort_out([again])

    assert tool.stopped == 1
    assert left == ([] if stubborn else [again])
    assert released == ([later] if stubborn else [])
    tool.open.set()
    await site.executor._stop()


async def claimed(site: Site) -> Any:
    await site.cluster.start(ONE)
    return await site.between.inner.claim("w", 1)


def fields(work: Any) -> Sequence[str]:
    names = getattr(work, "__struct_fields__", None) or work._fields
    return list(names)


async def test_tools_of_lost_leases_are_stopped(
    make_cluster: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "noetl.worker")
    tool = Tool(opened=False)
    site = Site(make_cluster(), tool)
    lost = asyncio.Event()

    async def renew(leases: Sequence[Lease]) -> Sequence[Lease]:
        if not lost.is_set():
            lost.set()
            raise Unreachable("down")
        return leases if tool.calls else []

    site.between.renew = renew
    await site.serve()
    await site.until(lambda: tool.stopped)
    await site.until(lambda: not site.executor.use.commands)
    await site.close()

    assert "leases could not be renewed: Unreachable: down" in caplog.messages
    assert any(text.startswith("gave up step start") for text in caplog.messages)


@pytest.mark.spec("S-38")
async def test_a_cancelled_execution_stops_its_tools(make_cluster: Make) -> None:
    tool = Tool(opened=False)
    site = Site(make_cluster(), tool)
    await site.serve()
    await site.until(lambda: tool.calls)
    site.executor.stop("another")
    site.executor.revoke(["another"])
    assert tool.stopped == 0
    site.executor.stop("e")

    assert results(await site.finish()) == ["cancelled"]


@pytest.mark.spec("S-38")
async def test_a_tool_is_not_called_after_its_stop(make_cluster: Make) -> None:
    tool = Tool()
    site = Site(make_cluster(), tool, is_stopped=lambda lease: True)
    await site.serve("- {step: start, tool: {kind: noop, spec: {rate: {limit: 1/s}}}}")

    assert results(await site.finish()) == ["cancelled"]
    assert tool.calls == []


# -- errors -------------------------------------------------------------------------


async def test_a_store_that_fails_gives_the_pipeline_back(
    make_cluster: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(make_cluster(), Tool())
    inner = site.between.inner
    site.between.report = await one_after_another(
        StoreError("no", "store.full"), then=inner.report
    )
    await site.serve()
    await site.until(lambda: caplog.messages)
    await site.until(lambda: not site.executor.use.commands)
    await site.cluster.server.sweep()

    assert results(await site.finish()) == [1]
    assert caplog.messages == ["step start waits: StoreError: no"]


async def test_an_error_ends_a_process_that_runs_one_execution(
    make_cluster: Make,
) -> None:
    site = Site(make_cluster(pool="local"), Tool())
    error = StoreError("no", "store.full")
    site.between.report = await one_after_another(error)
    await site.serve()
    assert site.serving is not None

    with pytest.raises(StoreError, match="no"):
        await site.serving


async def test_a_defect_that_cannot_be_reported_leaves_the_pipeline(
    make_cluster: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(make_cluster(), Tool())
    site.between.report = await one_after_another(KeyError("a"), KeyError("b"))
    await site.serve()
    await site.until(lambda: "a pipeline was left" in caplog.messages)
    await site.close()

    assert caplog.messages == ["a pipeline met a defect", "a pipeline was left"]


async def test_a_pipeline_without_values_is_given_back(
    make_cluster: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(make_cluster(), Tool())
    site.between.values_for = await one_after_another(
        Unreachable("down"), then=site.between.inner.values_for
    )
    await site.serve()
    await site.until(lambda: caplog.messages)
    await site.until(lambda: not site.executor.use.commands)
    await site.cluster.server.sweep()

    assert results(await site.finish()) == [1]


def test_a_rate_and_slots_are_limits_each() -> None:
    place = ("tests/t", "start", "a")
    rate, slots = {"limit": "2/s", "burst": 3}, {"limit": 4, "key": "k"}

    [by_rate] = limits_of({"rate": rate}, place)
    [by_slots] = limits_of({"slots": slots}, place)

    assert by_rate.interval > 0 == by_slots.interval
    assert limits_of({"rate": rate, "slots": slots}, place) == [by_rate, by_slots]
    with pytest.raises(ValueError, match="must give a text or a number, found nothing"):
        limits_of({"slots": {"limit": 1, "key": None}}, place)


def test_what_may_pass_is_known() -> None:
    assert is_passing(Unreachable("down"))
    assert is_passing(asyncio.CancelledError())
    assert not is_passing(KeyError("x"))
    assert not is_passing(SystemExit())


async def test_the_last_facts_of_a_defect_begin_the_task_once(
    make_cluster: Make,
) -> None:
    [work] = await claimed(Site(make_cluster(), Tool()))
    first = last_facts(work, [], KeyError("x"), 0.0)

    again = last_facts(work, first[:1], KeyError("x"), 0.0)

    assert [each.name for each in first] == ["task.started", "task.done"]
    assert [each.name for each in again] == ["task.started", "task.done"]


# -- calls of tools -----------------------------------------------------------------


class Tokens:
    async def authorize(
        self, at: Any, auth: Mapping[str, Any], *, fresh: bool
    ) -> dict[str, Any]:
        return {"type": "bearer", "token": "t", "fresh": fresh}


def invocation(tool: Any, **members: Any) -> Invocation:
    given = {"kind": "noop", "inputs": {}, "spec": {}, "execution_id": "e", **members}
    more = {"step": "s", "task": "t", "action_id": "a", "folder": None, "drafts": None}
    attempt = given.pop("attempt", 1)
    call = ToolCall(**{**more, **given, "attempt": attempt})
    return Invocation(tool, call, Tokens())


async def test_a_call_with_oauth2_gets_a_token() -> None:
    tool = Tool()
    auth = {"type": "oauth2", "client_id": "c"}
    for attempt in (1, 2):
        await invocation(tool, inputs={"auth": auth}, attempt=attempt).run()

    assert [call.inputs["auth"]["fresh"] for call in tool.calls] == [False, True]


async def test_errors_of_tools_are_outcomes() -> None:
    tool = Tool()
    tool.error = ToolError("http.server", "500", retryable=True)
    failed = await invocation(tool).run()
    tool.error = SystemExit(1)
    ended = await invocation(tool).run()

    assert failed.error is not None
    assert (failed.error.kind, failed.error.retryable) == ("http.server", True)
    assert ended.error is not None
    assert ended.error.kind == "tool.contract"


def test_a_tool_that_does_not_declare_its_effects_may_have_some() -> None:
    assert invocation(object()).has_effect
    assert not invocation(object(), spec={"idempotent": True}).has_effect


async def running(tool: Tool, flush: Any, limit: float = 60.0) -> Any:
    """A call in a task of its own, once its tool runs."""
    calls: list[RunningCall] = []

    async def call() -> Outcome:
        calls.append(RunningCall(flush, TimeLimit(limit)))
        return await calls[0].result(invocation(tool))

    task = asyncio.ensure_future(call())
    while not tool.calls:  # noqa: ASYNC110 - no event tells when a task runs
        await asyncio.sleep(0)
    return task, calls[0]


async def go_on() -> ReportAnswer:
    return ReportAnswer()


async def test_a_call_that_was_stopped_too_late_has_its_outcome() -> None:
    tool = Tool(opened=False, stubborn=True)
    task, call = await running(tool, go_on)
    call.stop()
    call.stop()
    await asyncio.sleep(0)
    tool.open.set()

    assert (await task).result == 1
    call.stop()
    call._expire()
    assert task.cancelling() == 0


@pytest.mark.parametrize("stop", [True, False])
async def test_a_call_whose_pipeline_is_lost_is_given_up(
    monkeypatch: pytest.MonkeyPatch, *, stop: bool
) -> None:
    monkeypatch.setattr(tool_call, "RECORD_START_AFTER_S", 0.0)

    async def flush() -> ReportAnswer:
        if stop:
            return ReportAnswer(stop=True)
        raise LeaseLost("a server stopped this pipeline")

    tool = Tool(opened=False)
    task, _ = await running(tool, flush)

    with pytest.raises(LeaseLost, match="a server stopped this pipeline"):
        await task
    assert tool.stopped == 1


async def test_a_worker_that_stops_waits_for_no_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_call, "RECORD_START_AFTER_S", 0.0)
    begun = asyncio.Event()

    async def flush() -> ReportAnswer:
        begun.set()
        await asyncio.Event().wait()
        return ReportAnswer()

    tool = Tool(opened=False)
    task, _ = await running(tool, flush)
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


# -- pipelines ----------------------------------------------------------------------


class Logs:
    async def append(self, chunks: Any) -> None:
        pass


async def test_what_a_task_printed_is_counted(make_cluster: Make) -> None:
    site = Site(make_cluster(), Tool(), logs=LogSender(Logs().append))
    await site.serve()

    [done] = [e for e in await site.finish() if e.name == "task.done"]

    assert done.payload["outcome"]["meta"]["logs"]["lines"] == 1


async def test_a_kind_without_a_tool_is_an_outcome(make_cluster: Make) -> None:
    site = Site(make_cluster(), Tool())
    site.executor.tools = {}
    await site.serve()

    assert results(await site.finish()) == ["tool.contract"]


LIMITED = "- {step: start, tool: [{a: {kind: noop, %s}}, {b: {kind: noop}}]}"
RETRY = """
- step: start
  tool: [{a: {kind: noop, spec: {policy: {rules: [
    {when: "{{ _attempt < 2 }}", then: {do: retry, delay: %s}}]}}}}]
"""


@pytest.mark.parametrize("delay", ["0.01", "60"])
async def test_a_short_delay_keeps_the_slot(make_cluster: Make, delay: str) -> None:
    site = Site(make_cluster(), Tool())
    await site.serve(RETRY % delay)
    if delay == "60":
        await site.until(lambda: "task.suspended" in names(site))
        site.cluster.clock.time += 61
        await site.cluster.server.sweep()

    assert results(await site.finish()) == [1, 1]
    assert (0.01 in site.clock.slept) is (delay == "0.01")


def names(site: Site) -> list[str]:
    return [event.name for batch in site.cluster.batches for event in batch]


@pytest.mark.parametrize("pause", [False, True])
async def test_a_pipeline_stops_where_its_server_says_so(
    make_cluster: Make, *, pause: bool
) -> None:
    tool = Tool()
    site = Site(make_cluster(), tool)
    inner, stopped = site.between.inner, asyncio.Event()

    async def report(lease: Lease, facts: Any, *, wants: Any = None) -> ReportAnswer:
        await inner.report(lease, facts, wants=wants)
        stopped.set()
        return ReportAnswer(stop=True)

    site.between.report = report
    tool.effect = not pause
    await site.serve(RETRY % "0.01" if pause else ONE)
    await stopped.wait()
    await site.until(lambda: not site.executor.use.commands)
    await site.close()

    assert len(tool.calls) == (1 if pause else 0)


async def test_a_call_waits_for_its_permission(make_cluster: Make) -> None:
    site = Site(make_cluster(), Tool())
    inner, asked = site.between.inner, list[int]()
    answers = [pipeline_run.ASK_AGAIN_S / 2, 5.0, 0.0, 0.0]

    async def permit(lease: Lease, limits: Sequence[Any]) -> float:
        asked.append(len(limits))
        return answers.pop(0)

    site.between.permit = permit
    limits = "spec: {slots: {limit: 1, key: k}, rate: {limit: 1/s}}"
    flow = LIMITED % limits
    await site.serve(flow)
    await site.until(lambda: "task.suspended" in names(site))
    site.cluster.clock.time += 6
    await site.cluster.server.sweep()

    assert results(await site.finish()) == [1, 1]
    assert asked == [2, 2, 2, 0]
    assert inner is not None


async def test_a_slot_of_a_call_whose_pipeline_stops_is_not_given_back(
    make_cluster: Make,
) -> None:
    tool = Tool()
    tool.effect = False
    site = Site(make_cluster(), tool)
    asked = list[int]()

    async def permit(lease: Lease, limits: Sequence[Any]) -> float:
        asked.append(len(limits))
        return 0.0

    async def report(lease: Lease, facts: Any, *, wants: Any = None) -> ReportAnswer:
        return ReportAnswer(stop=True)

    site.between.permit, site.between.report = permit, report
    limits = "spec: {slots: {limit: 1, key: k}}"
    flow = LIMITED % limits
    await site.serve(flow)
    await site.until(lambda: tool.calls)
    await site.until(lambda: not site.executor.use.commands)
    await site.close()

    assert asked == [1]


async def test_a_limit_with_a_wrong_key_is_an_outcome(make_cluster: Make) -> None:
    tool = Tool()
    site = Site(make_cluster(), tool)
    await site.serve(
        "- {step: start, tool: {kind: noop, "
        "spec: {rate: {limit: 1/s, key: '{{ [1] }}'}}}}"
    )

    assert results(await site.finish()) == ["tool.contract"]
    assert tool.calls == []


async def test_work_waits_for_its_turn(make_cluster: Make) -> None:
    site = Site(make_cluster(), Tool())
    site.between.turns = Turns()
    await site.serve()

    assert results(await site.finish()) == [1]
    assert site.between.turns.taken > 0


class Turns:
    """Turns that are never free."""

    is_free = False
    taken = 0

    async def take(self, work: Callable[[], Any]) -> Any:
        self.taken += 1
        await asyncio.sleep(0)
        return work()


async def test_large_values_are_loaded_and_stored(make_cluster: Make) -> None:
    flow = """
    - step: start
      tool: [{a: {kind: noop, v: "{{ workload.big | length }}"}}]
    """
    tool = Tool()
    site = Site(make_cluster(), tool)
    await site.serve(flow, workload={"big": "x" * 70_000})
    await site.finish()

    assert tool.calls[0].inputs == {"v": 70_000}


async def test_a_result_that_is_too_large_for_an_event_is_stored_first(
    make_cluster: Make, make_tool: Make
) -> None:
    async def large(call: ToolCall) -> Any:
        return "x" * 70_000

    cluster = make_cluster()
    await cluster.start(ONE)
    cluster.work("w", make_tool(large))
    [done] = [e for e in await cluster.finish() if e.name == "task.done"]

    assert done.payload["spilled"] == ["outcome.result"]


async def test_a_stubborn_tool_of_the_only_task_may_have_ended_by_then(
    make_cluster: Make,
) -> None:
    tool = Tool(opened=False, stubborn=True)
    site = Site(make_cluster(), tool, ttl=0.05)

    async def release(leases: Sequence[Lease]) -> None:
        tool.open.set()
        while site.executor._tasks:  # noqa: ASYNC110 - no event tells when tasks end
            await asyncio.sleep(0)

    site.between.release = release
    [work] = await claimed(site)
    site.executor._serving = True
    site.executor._begin(work)
    await site.until(lambda: tool.calls)
    later = Lease(work.lease.command_id, "e", "w", work.lease.epoch + 1)
    again = type(work)(
        **{**{name: getattr(work, name) for name in fields(work)}, "lease": later}
    )

    assert await site.executor._sort_out([again]) == []


async def test_many_facts_are_reported_before_the_end(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_run, "MAX_UNREPORTED_FACTS", 3)
    tool = Tool()
    tool.effect = False
    site = Site(make_cluster(), tool)
    await site.serve(
        "- {step: start, tool: [{a: {kind: noop}}, {b: {kind: noop}}, "
        "{c: {kind: noop}}]}"
    )

    assert results(await site.finish()) == [1, 1, 1]


async def test_a_tool_without_waiting_needs_no_timer(make_cluster: Make) -> None:
    tool = Tool()
    tool.instant = True
    site = Site(make_cluster(), tool)
    await site.serve()

    assert results(await site.finish()) == [1]


async def test_a_pipeline_that_has_ended_is_left(make_cluster: Make) -> None:
    tool = Tool()
    site = Site(make_cluster(), tool)
    [work] = await claimed(site)
    work.progress.end, work.progress.label = "done", None
    site.executor._serving = True
    site.executor._begin(work)
    await site.executor.drain()

    assert tool.calls == []
