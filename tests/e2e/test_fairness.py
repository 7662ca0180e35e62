"""Many executions, few slots: none of them waits until another one is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import HELLO, Api, Running, WorkerProcess, playbook

pytestmark = pytest.mark.spec("WKR-02", "LOOP-15", "S-64")


def loop(mode: str) -> str:
    return playbook(
        "long",
        f"""
        - step: start
          loop: {{in: "{{{{ range(10000) }}}}", iterator: n, spec: {{{mode}}}}}
          tool: {{kind: noop, result: "{{{{ iter.n }}}}"}}
        """,
    )


@pytest.fixture(params=["server", "cluster"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    """With one slot for all of them."""
    if request.param == "server":
        server = Running(tmp_path / "home", slots=1)
        yield Api(server.url, server.token)
    else:
        postgres = request.getfixturevalue("postgres")
        server = Running(tmp_path / "home", slots=0, database=postgres)
        worker = WorkerProcess(tmp_path / "worker", server.url, server.token, slots=1)
        yield Api(server.url, server.token)
        worker.stop()
    server.stop()


BESIDE = playbook(
    "beside",
    """
    - step: start
      next:
        spec: {mode: inclusive}
        arcs: [{step: hold}, {step: watch}]
    - step: hold
      loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
      tool: {kind: shell, command: sleep 3}
    - step: watch
      tool: {kind: wait, for: 10ms}
    """,
)


@pytest.mark.spec("S-79")
def test_a_wait_needs_no_slot_beside_a_loop_that_has_them_all(api: Api) -> None:
    execution_id = api.start(BESIDE)
    ends = ("step.done", "loop.iteration.done")
    ended = (e["step"] for e in api.stream(execution_id) if e["name"] in ends)

    assert [next(ended), next(ended)] == ["start", "watch"]
    assert api.post(f"/api/executions/{execution_id}/cancel").status == 200


@pytest.mark.parametrize(
    "mode",
    ["mode: sequential", "mode: parallel, max_in_flight: 4", "mode: parallel"],
)
def test_a_long_loop_does_not_starve_a_short_execution(api: Api, mode: str) -> None:
    long = api.start(loop(mode))
    api.await_event(long, "loop.iteration.done")

    short = api.run(HELLO)

    assert short["status"] == "completed"
    assert api.get(f"/api/executions/{long}").body["status"] == "running"
    assert api.post(f"/api/executions/{long}/cancel").status == 200
