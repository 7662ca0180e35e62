"""One run of one case under one schedule, in virtual time, and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from noetl.dsl.model import Playbook
from noetl.dsl.playbook_inputs import check_inputs, merge_inputs
from noetl.engine.events import Event
from noetl.engine.runs import path_of
from noetl.engine.secrets.handles import Secrets
from noetl.engine.simulate import Simulation
from noetl.engine.state import State, status_of
from noetl.engine.tasks.outcome import Failure
from noetl.engine.times import seconds_of
from noetl.net.net import Net, build_net
from noetl.testing.check_names import TaskName, missing_secrets, replies_by_task
from noetl.testing.child_executions import Family, Member, Schedule
from noetl.testing.model import Case, Reply
from noetl.testing.replies import NO_ANSWERS
from noetl.testing.script import CallTool, Made, Script, ScriptError, Tally, refuse_real
from noetl.types import JSON


class Observation(msgspec.Struct, frozen=True, dict=True):
    """Result of a run.

    ``made`` are the calls of the playbook under test, ``others`` the child playbooks
    with their logs.
    """

    playbook: Playbook
    state: State
    result: JSON
    ctx: dict[str, JSON]
    log: Sequence[Event]
    made: Sequence[Made]
    seconds: float
    others: Sequence[tuple[Playbook, Sequence[Event]]] = ()

    @property
    def status(self) -> str:
        return status_of(self.state)

    @cached_property
    def path(self) -> list[str]:
        """Steps that ran, in the order of their admission."""
        return [each.step or "" for each in self.log if each.name == "step.scheduled"]

    def inputs(self, task: TaskName) -> list[dict[str, JSON]]:
        return [each.inputs for each in self.made if each.task == task]

    @cached_property
    def begun(self) -> set[TaskName]:
        """Tasks that were started, called or not."""
        return {
            (each.step or "", each.task_label or "")
            for each in self.log
            if each.name == "task.started"
        }

    def iterations(self, step: str) -> dict[str, int]:
        """Count the iterations of the outermost loop over all runs of the step."""
        counts = {"total": 0, "done": 0, "failed": 0, "skipped": 0}
        for event in self.log:
            if event.step != step:
                continue
            depth = len(path_of(event.iteration_id))
            if event.name == "loop.started" and depth == 0:
                counts["total"] += event.payload["total"]
            elif event.name == "loop.iteration.done" and depth == 1:
                counts["done"] += 1
            elif event.name == "loop.iteration.failed" and depth == 1:
                counts["failed"] += 1
        counts["skipped"] = counts["total"] - counts["done"] - counts["failed"]
        return counts


FindChild = Callable[[str, str | None], Playbook | Failure]
"""A child by path and version, or the reason why it cannot be called."""


class Cast(msgspec.Struct, frozen=True):
    """Playbook with the replies of its tasks, built once for all schedules."""

    playbook: Playbook
    net: Net
    replies: dict[TaskName, tuple[Reply, ...]]


class Trial:
    """Case, prepared to run under many schedules. ``call_tool`` makes the calls that
    its answers want to be real."""

    def __init__(
        self,
        case: Case,
        playbook: Playbook,
        find: FindChild,
        call_tool: CallTool = refuse_real,
    ) -> None:
        self.case = case
        self.call_tool = call_tool
        self._find = find
        self.root = Cast(
            playbook, build_net(playbook), replies_by_task(playbook, case.answers)
        )
        self._children: dict[tuple[str, str | None], Cast | Failure] = {}

    def child(self, path: str, version: str | None) -> Cast | Failure:
        key = (path, version)
        if key not in self._children:
            found = self._find(path, version)
            if isinstance(found, Playbook):
                answers = self.case.children.get(path, NO_ANSWERS)
                replies = replies_by_task(found, answers)
                self._children[key] = Cast(found, build_net(found), replies)
            else:
                self._children[key] = found
        return self._children[key]


class Attempt:
    """One run; it can be observed even if it did not finish."""

    def __init__(self, trial: Trial, seed: int) -> None:
        case = trial.case
        self._trial = trial
        self._tally = Tally()
        self._tallies: dict[str, Tally] = {}
        self._others: list[tuple[Playbook, Simulation]] = []
        call_tool = trial.call_tool
        script = Script(trial.root.replies, self._tally, call_tool=call_tool)
        simulation = Simulation(
            trial.root.playbook,
            script.answer,
            workload=case.workload,
            clock=case.starts_at,
            net=trial.root.net,
            unasked=frozenset(),
            secrets=Secrets(case.keychain),
        )
        script.simulation = simulation
        self._schedule = Schedule(seed)
        self._family = Family(simulation, self._adopt, self._schedule, case.signals)

    def run(self) -> Observation:
        """Run the case. Raises ``ScriptError``, ``Endless`` or ``Diverged``."""
        self._family.run()
        return self.observe()

    @property
    def free(self) -> bool:
        """True if another schedule could take another order."""
        return self._schedule.free

    def observe(self) -> Observation:
        root = self._family.root
        return Observation(
            root.playbook,
            root.state,
            root.whole(root.state.result) if root.state.finished else None,
            root.whole(root.state.ctx),
            root.log,
            self._tally.made,
            seconds_of(root.log[-1].timestamp) - self._trial.case.starts_at,
            [(playbook, each.log) for playbook, each in self._others],
        )

    def _adopt(
        self, child: dict[str, JSON], caller: Member, command_id: str
    ) -> Simulation | Failure:
        path = child["path"]
        cast = self._trial.child(path, child["version"])
        if isinstance(cast, Failure):
            return cast
        missing = missing_secrets(cast.playbook, self._trial.case.keychain)
        if missing:
            message = f"'{path}' has no value for keychain entry '{missing[0]}'"
            raise ScriptError(message, f"add one: keychain: {{{missing[0]}: …}}")
        tally = self._tallies.setdefault(path, Tally())
        origin = (*caller.origin, *path_of(command_id))
        call_tool = self._trial.call_tool
        script = Script(cast.replies, tally, origin, path, call_tool)
        above = caller.simulation
        workload = merge_inputs(cast.playbook, above.whole(child["args"]))
        wrong = check_inputs(cast.playbook, workload)
        if wrong is not None:
            message = f"playbook '{path}' was not started: {wrong['message']}"
            return Failure(wrong["kind"], message)
        simulation = Simulation(
            cast.playbook,
            script.answer,
            workload=workload,
            execution_id=child["execution_id"],
            clock=above.clock,
            parent={
                "execution_id": above.state.execution_id,
                "command_id": command_id,
                "depth": above.state.depth,
                "iter": child["iter"],
            },
            net=cast.net,
            unasked=frozenset(),
            secrets=Secrets(self._trial.case.keychain),
        )
        script.simulation = simulation
        self._others.append((cast.playbook, simulation))
        return simulation
