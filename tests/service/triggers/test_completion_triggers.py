"""Ends of executions start others: once each, also after a crash, and not for ever."""

from __future__ import annotations

import pytest
from servers import playbook

from noetl.service.errors import RequestRefused
from noetl.service.executions.path_limits import PathLimits
from noetl.service.executions.start import StartInputs
from noetl.service.triggers.fire import TriggerStarter

FAILS = playbook("fails", "- {step: start, tool: {kind: shell, command: exit 3}}")
NEXT = playbook("next", "- {step: start, tool: {kind: noop}}")
CALLS = playbook("calls", "- {step: start, tool: {kind: playbook, path: tests/hello}}")


async def start(node, path: str) -> str:
    starting = node.standing.arranging._starting
    asked = StartInputs(path=path)
    found = await starting.resolve(asked)
    return (await starting.start(asked, found, "ann", None)).execution_id


async def paths(node) -> list[str]:
    return [each.playbook["path"] for each in await node.executions()]


async def test_an_end_starts_the_next(node_at, watch, tmp_path, database) -> None:
    async with node_at(tmp_path, watch, database) as node:
        await node.register(NEXT)
        await node.make(
            playbook="tests/next",
            finished={"path": "tests/hello"},
            workload={
                "from": "{{ execution.execution_id }}",
                "result": "{{ execution.result }}",
            },
        )
        first = await start(node, "tests/hello")
        _, second = await node.ended(2)

        looking = node.standing.arranging._looking
        document = await looking.document(second.execution_id)
        assert document["playbook"]["path"] == "tests/next"
        assert document["workload"] == {"from": first, "result": 1}
        await node.orchestrator.sweep()
        assert len(await node.executions()) == 2


async def test_only_the_ends_that_it_names(node_at, watch, tmp_path) -> None:
    async with node_at(tmp_path, watch) as node:
        for text in (NEXT, FAILS):
            await node.register(text)
        finished = {"path": "tests/fails", "status": ["failed"]}
        await node.make(playbook="tests/next", finished=finished)
        await start(node, "tests/hello")
        await node.ended(1)
        await start(node, "tests/fails")
        await node.ended(3)

        assert await paths(node) == ["tests/hello", "tests/fails", "tests/next"]


async def test_a_trigger_fires_after_its_server_died_before_firing(
    node_at, watch, tmp_path, database, monkeypatch
) -> None:
    async with node_at(tmp_path, watch, database) as node:
        await node.register(NEXT)
        await node.make(playbook="tests/next", finished={"path": "tests/hello"})

        async def die(*args: object) -> None:
            raise RuntimeError("killed")

        monkeypatch.setattr(TriggerStarter, "ensure", die)
        await start(node, "tests/hello")
        await node.ended(1)
        assert await paths(node) == ["tests/hello"]
    monkeypatch.undo()
    async with node_at(tmp_path, watch, database) as node:
        await node.ended(2)
        await node.orchestrator.sweep()

        assert await paths(node) == ["tests/hello", "tests/next"]


async def test_a_round_is_refused(node_at, watch, tmp_path) -> None:
    async with node_at(tmp_path, watch, work=False) as node:
        await node.register(NEXT)
        await node.make(playbook="tests/next", finished={"path": "tests/hello"})
        with pytest.raises(
            RequestRefused, match="tests/hello → tests/next → tests/hello"
        ):
            await node.make(name="u", finished={"path": "tests/next"})


async def test_a_cycle_of_triggers_through_a_child_is_stopped(
    node_at, watch, tmp_path, caplog
) -> None:
    """It goes by a child: the trigger starts a playbook that calls what it hears of."""
    async with node_at(tmp_path, watch) as node:
        await node.register(CALLS)
        await node.make(playbook="tests/calls", finished={"path": "tests/hello"})
        await start(node, "tests/hello")
        await node.ended(1 + 2 * 8)
        while "start each other in a cycle" not in caplog.text:
            await node.orchestrator.sweep()

        assert len(await node.executions()) == 1 + 2 * 8


async def test_what_an_end_starts_may_exceed_the_limit_of_its_path(
    node_at, watch, tmp_path
) -> None:
    async with node_at(tmp_path, watch) as node:
        await node.register(NEXT)
        await node.make(playbook="tests/next", finished={"path": "tests/hello"})
        limits = PathLimits([("tests/next", 0)], node.store, watch)
        node.standing.arranging._starting._limits = limits

        await start(node, "tests/hello")

        await node.ended(2)
        assert await paths(node) == ["tests/hello", "tests/next"]
