"""The same playbook gives the same result, whatever host executes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_api import EXAMPLES, DemoApi, Noetl
from servers import Api, Running, WorkerProcess

INPUTS: dict[str, dict[str, Any]] = {
    "hello.yaml": {"name": "Ada"},
    "countdown.yaml": {"numbers": [1]},
    "errors.yaml": {"case": "handled"},
    "fan_out_fan_in.yaml": {"thorough": True},
    "hotels.yaml": {"patience": "5ms"},
    "pagination.yaml": {},
}
"""Those that need neither a database nor secrets, with inputs that make them quick."""

Host = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Host]:
    server = Running(tmp_path / "served")
    api = Api(server.url, server.token)

    def run(example: str, inputs: dict[str, Any]) -> dict[str, Any]:
        text = (EXAMPLES / example).read_text()
        return api.run(text, workload=inputs)

    yield run
    server.stop()


@pytest.fixture
def clustered(tmp_path: Path, postgres: str) -> Iterator[Host]:
    """A server on PostgreSQL that runs no tools, and two workers that do."""
    server = Running(tmp_path / "home", database=postgres, slots=0)
    workers = [
        WorkerProcess(tmp_path / "home", server.url, server.token) for _ in range(2)
    ]
    api = Api(server.url, server.token)

    def run(example: str, inputs: dict[str, Any]) -> dict[str, Any]:
        text = (EXAMPLES / example).read_text()
        return api.run(text, workload=inputs)

    yield run
    assert [worker.stop() for worker in workers] == [0, 0]
    server.stop()


@pytest.fixture(params=["served", "clustered"])
def host(request: pytest.FixtureRequest) -> Host:
    """Every host but ``noetl run``, which the others are compared with."""
    found: Host = request.getfixturevalue(request.param)
    return found


@pytest.mark.spec("S-62", "SRV-02", "SRV-16")
@pytest.mark.parametrize("example", INPUTS)
def test_an_example_ends_as_by_noetl_run(
    noetl: Noetl, api: DemoApi, host: Host, example: str
) -> None:
    inputs = INPUTS[example]
    if "api:" in (EXAMPLES / example).read_text():
        inputs = {**inputs, "api": api.url}
    settings = {name: str(value).lower() for name, value in inputs.items()}
    settings |= {name: inputs[name] for name in ("name", "api") if name in inputs}
    ran = noetl.run(example, **settings)
    calls = api.calls()
    api.post("/reset")

    served = host(example, inputs)

    for member in ("status", "result", "ctx", "workload", "error"):
        assert served[member] == ran[member], member
    assert sorted((step["step"], step["status"]) for step in served["steps"]) == sorted(
        (step["step"], step["status"]) for step in ran["steps"]
    )
    assert api.calls() == calls
