"""One run of one case under one schedule, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.outcome import Failure
from noetl.engine.runs import path_of
from noetl.engine.secrets import Secrets
from noetl.engine.simulate import Simulation
from noetl.engine.times import seconds_of
from noetl.net.net import Net, build_net
from noetl.testing.family import Family, Member
from noetl.testing.model import Case, Reply
from noetl.testing.names import TaskName, missing_secrets, replies_by_task
from noetl.testing.observation import Observation
from noetl.testing.replies import NO_ANSWERS
from noetl.testing.schedule import Schedule
from noetl.testing.script import Script, ScriptError, Tally
from noetl.types import JSON

FindChild = Callable[[str, str | None], Playbook | Failure]
"""A child by path and version, or why it cannot be called."""


class Cast(msgspec.Struct, frozen=True):
    """A playbook with the replies that its tasks get: made once for all schedules."""

    playbook: Playbook
    net: Net
    replies: dict[TaskName, tuple[Reply, ...]]


class Trial:
    """A case, made ready to be run under many schedules."""

    def __init__(self, case: Case, playbook: Playbook, find: FindChild) -> None:
        self.case = case
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
    """One run; it can be looked at also when it did not come to an end."""

    def __init__(self, trial: Trial, seed: int) -> None:
        case = trial.case
        self._trial = trial
        self._tally = Tally()
        self._tallies: dict[str, Tally] = {}
        self._others: list[tuple[Playbook, Simulation]] = []
        script = Script(trial.root.replies, self._tally)
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
        """Raises ``ScriptError``, ``Endless`` or ``Diverged``."""
        self._family.run()
        return self.observe()

    @property
    def free(self) -> bool:
        """Whether another schedule could go another way."""
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
            message = f"'{path}' has the keychain entry '{missing[0]}', and no value"
            raise ScriptError(message, f"add one: keychain: {{{missing[0]}: …}}")
        tally = self._tallies.setdefault(path, Tally())
        origin = (*caller.origin, *path_of(command_id))
        script = Script(cast.replies, tally, origin, path)
        above = caller.simulation
        simulation = Simulation(
            cast.playbook,
            script.answer,
            workload=above.whole(child["args"]),
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
