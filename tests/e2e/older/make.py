"""Makes the stores of an older version, which the tests beside this folder open.

    git worktree add ../older b92d24d && make -C ../older setup && cd ../older
    PYTHONPATH=tests/support .venv/bin/python …/make.py HOME [DATABASE]

It starts a server of that version in HOME, on DATABASE if one is given, leaves
executions in it, and ends as if it was killed. ``home.tar.gz`` has the log, triggers
and results of HOME, its log checkpointed; ``database.sql.gz`` has what ``pg_dump
--schema noetl --rows-per-insert 200 --no-owner --no-acl`` printed, without the lines
that begin with a backslash. Both are of the last version that kept a row for each
event.
"""

import os
import sys
from pathlib import Path

from servers import Api, Running, playbook

CHAIN = playbook(
    "chain",
    """
    - step: start
      tool: {kind: python, args: {x: 1}, code: "result = x + 1"}
      next: {arcs: [{step: each}]}
    - step: each
      loop: {in: "{{ workload.items }}", iterator: item}
      tool: {kind: python, args: {x: "{{ iter.item }}"}, code: "result = x * 2"}
      next: {arcs: [{step: large}]}
    - step: large
      tool: {kind: python, code: "result = 'row ' * 30000"}
      next: {arcs: [{step: end}]}
    - {step: end, tool: {kind: noop, result: over}}
    """,
    "workload: {items: [1, 2, 3, 4, 5]}\n",
)
LOOP = playbook(
    "loop",
    """
    - step: start
      loop: {in: "{{ range(8) | list }}", iterator: item}
      tool:
        kind: python
        args: {x: "{{ iter.item }}"}
        code: |
          import time
          time.sleep(0.2)
          result = x + 1
      next: {arcs: [{step: end, args: {got: "{{ event.payload.result }}"}}]}
    - {step: end, tool: {kind: noop, result: "{{ args.got }}"}}
    """,
)
WAIT = playbook(
    "wait",
    """
    - step: start
      tool:
        - ask: {kind: wait, signal: approved}
        - note: {kind: noop, result: "by {{ _prev.by }}"}
      next: {arcs: [{step: end, args: {got: "{{ event.payload.result }}"}}]}
    - {step: end, tool: {kind: noop, result: "{{ args.got }}"}}
    """,
)


def leave_executions(api: Api) -> None:
    done = api.run(CHAIN, labels={"kept": "completed"})
    assert done["status"] == "completed", done
    waiting = api.start(WAIT, labels={"kept": "waiting"})
    api.await_event(waiting, "task.suspended")
    paused = api.start(LOOP, labels={"kept": "paused"})
    api.await_event(paused, "loop.iteration.done")
    assert api.post(f"/api/executions/{paused}/pause").status == 200
    api.await_event(paused, "workflow.paused")
    killed = api.start(LOOP, labels={"kept": "killed"})
    api.await_event(killed, "loop.iteration.done")


def main(home: str, database: str | None = None) -> None:
    server = Running(Path(home), database=database)
    leave_executions(Api(server.url, server.token))
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
