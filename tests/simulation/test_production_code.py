"""The simulator runs the production code, and has none of its decisions itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from simulator.plan import Options
from simulator.world import World

from noetl.adapters.stores.memory.store import MemoryStore
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.worker.executor import Executor
from noetl.runtime.worker_protocol.gateway import WorkerGateway

FOLDER = Path(__file__).parent / "simulator"
PASSED_ON = {"commit", "claim", "renew", "permit", "sweep", "set_status"}
"""Calls of the store that a connection passes on, each with its faults."""
DECISIONS = {
    *PASSED_ON,
    *("decide", "report", "expire", "settle", "admit", "grant", "abandon", "replay"),
    *("evolve", "heartbeat", "release", "forgive", "place", "transition_of"),
}


@pytest.fixture(scope="module")
def world():
    made = World(Options(1))
    made.run(lambda: made.loop.time() > 1.0)
    yield made
    made.close()


def test_servers_and_workers_are_those_of_production(world):
    [server, *_] = world.servers.values()
    [worker, *_] = world.workers.values()

    assert type(world.database.memory) is MemoryStore
    assert type(worker.executor) is Executor
    assert type(server.gateway) is WorkerGateway
    for name, part in vars(server.orchestrator).items():
        ports = ("store", "clock")
        owner = type(part).__module__.partition(".")[0]
        assert owner in ("noetl", "asyncio") or name in ports, name
    assert make_orchestrator.__module__.startswith("noetl.")


def _functions():
    for file in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file.name, node


def test_the_simulator_defines_no_decision_of_the_protocol():
    found = {
        (file, node.name)
        for file, node in _functions()
        if node.name in DECISIONS and not file.startswith(("bugs_of", "store"))
    }

    assert found == set()


def test_a_connection_passes_each_call_on_to_the_store():
    for file, node in _functions():
        if file == "store.py" and node.name in DECISIONS:
            body = ast.unparse(node)
            assert node.name in PASSED_ON
            assert f"memory.{node.name}(" in body or "database.apply(" in body
