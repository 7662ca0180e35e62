"""Where commands go, and who must be told when something becomes of an execution."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from noetl.dsl.model import Step
from noetl.engine.effects import Effects
from noetl.engine.runs import is_waiting
from noetl.engine.times import NEVER
from noetl.engine.waits import children_of, moments_in
from noetl.ports import Timer
from noetl.runtime.live import Live

TTL = 30.0
"""Seconds that a lease lasts without a beat."""

MOST_LOST = 5
"""Workers that one call may cost (I-20)."""

TURN = 0.5
"""Seconds in which a slot is given what its reports make ready. Then it claims, and it
may be another execution's turn: a loop of long tasks keeps nobody waiting for more than
one of them, one of short tasks claims rarely."""
SOON = 60.0
"""Seconds within which it is not worth reading again what waits."""

DEFAULT_POOL = "default"
BEGUN_AFTER = 5.0
"""Seconds in which whoever called a child has begun it, or another server does."""


class Planner(msgspec.Struct):
    """Where commands go, and whether other processes must find what is due.

    ``pool`` is that of all commands; without it each step says its own (S-64).
    ``heard`` says of whose ends somebody wants to hear, by the path of the playbook.
    """

    pool: str | None = None
    shared: bool = False
    ttl: float = TTL
    heard: Callable[[str | None], bool] = lambda path: False

    @property
    def most_lost(self) -> int | None:
        """Of one process for itself nobody else is lost."""
        return MOST_LOST if self.pool is None else None

    def may_rest(self, live: Live, now: float) -> bool:
        """Whether a server can forget it for a while: nothing will happen to it, unless
        somebody sends something. Whoever calls others stays: they may be beginning
        just now."""
        if self.pool is not None or live.children or not is_waiting(live.state):
            return False
        return min(moments_in(live.state), default=NEVER) > now + SOON

    def pool_of(self, live: Live, command_id: str) -> str:
        run = live.state.runs[command_id.split("/")[0]]
        return self._pool(live.playbook.steps[run.step])

    def first_pool(self, live: Live) -> str:
        """Whose workers are asked first, once it has begun."""
        return self._pool(live.playbook.entry)

    def _pool(self, step: Step | None) -> str:
        if self.pool is not None:
            return self.pool
        spec = step.tasks[0].spec if step is not None and step.tasks else {}
        return str(spec.get("pool", DEFAULT_POOL))

    def together_of(self, live: Live, command_id: str) -> str | None:
        """What one worker runs together with it: all of a local loop (LOOP-06). None
        if anybody may take it, or there is nobody else."""
        run_id, *path = command_id.split("/")
        if self.pool is not None or not path:
            return None
        loop = live.playbook.steps[live.state.runs[run_id].step].loop
        for depth, level in enumerate(loop.levels() if loop is not None else ()):
            if level.placement == "local":
                return "/".join([run_id, *path[:depth]])
        return None

    def hearing(self, execution_id: str, path: str | None, now: float) -> list[Timer]:
        """The timer by which others hear of an end, if anybody wants to."""
        if not self.heard(path):
            return []
        return [Timer(execution_id, "finished", now, "finished")]

    def family_of(
        self, live: Live, effects: Effects, now: float
    ) -> tuple[list[Timer], list[Timer]]:
        """Timers of the execution, for children that it calls, and of its relatives,
        who must look what has become of it."""
        if not self.shared:
            return [], []
        state = live.state
        mine = [
            Timer(state.execution_id, f"child:{name}", now + BEGUN_AFTER, "family")
            for name in effects.children
        ]
        theirs = []
        if state.finished and state.parent is not None:
            caller, name = state.parent["execution_id"], state.parent["command_id"]
            theirs.append(Timer(caller, f"child:{name}", now, "family"))
        if live.children:
            awaited = {child["execution_id"] for _, child in children_of(state)}
            for child_id in live.children.keys() - awaited:
                theirs.append(Timer(child_id, "parent", now, "family"))
        return mine, theirs
