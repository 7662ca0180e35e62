"""One execution in memory: its state, its queued decisions and its secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from noetl.dsl.model import Playbook
from noetl.dsl.playbook_inputs import secret_inputs
from noetl.engine.recorder import Batch
from noetl.engine.secrets.handles import Secrets
from noetl.engine.state import State
from noetl.engine.values.references import Values
from noetl.errors import NoetlError
from noetl.net.net import Net, build_net
from noetl.ports import Lease
from noetl.runtime.dispatcher import Prefetch, ReportAnswer
from noetl.types import JSON

Decision = Callable[[Batch], bool | None]


class InboxItem(msgspec.Struct):
    """A decision to make, and the future of its caller.

    ``lease`` is the lease of a report and ``number`` the number that a remote worker
    gave it; ``prefetch`` names a free slot for the pipeline that the decision makes
    ready; ``disarm`` is the timer that caused the decision. ``mends``: the commit makes
    lost rows of the execution again. After the decision the item has an ``answer`` or
    an ``error``.
    """

    decide: Decision
    future: asyncio.Future[ReportAnswer]
    lease: Lease | None = None
    prefetch: Prefetch | None = None
    disarm: str | None = None
    number: int = 0
    mends: bool = False
    answer: ReportAnswer | None = None
    error: NoetlError | None = None


class StepTurns(msgspec.Struct):
    """The order in which the ready commands of an execution are claimed.

    Each command gets a place: the commands of one step run have places in a row, and a
    step run begins at the place of the last command that began. So the step runs take
    turns, however many commands one of them has (S-79). ``now`` is that place, ``last``
    the last one of each step run, ``waiting`` those of commands that have not begun.

    The order is not recorded. It begins at the position of the log, which no earlier
    place is far beyond.
    """

    now: int = 0
    last: dict[str, int] = msgspec.field(default_factory=dict)
    waiting: dict[str, int] = msgspec.field(default_factory=dict)


_KINDS_WITH_SECRETS = ("secrets", "playbook")


class LoadedExecution(msgspec.Struct):
    """An execution in memory. Its state is the folded log up to ``state.seq``.

    ``inbox`` holds the inputs that wait for a decision; ``busy`` is set while a task
    drains it. ``stale``: another server may have extended the log. ``saved``
    is the position of the last snapshot. ``children`` maps the ids of called executions
    to the commands that wait for them. ``request_key`` goes into the first commit.
    ``used`` is the time of the last access, ``turns`` the order of its commands.
    """

    playbook: Playbook
    net: Net
    state: State
    about: dict[str, JSON]
    values: Values
    secrets: Secrets
    saved: int = 0
    busy: bool = False
    stale: bool = False
    inbox: list[InboxItem] = msgspec.field(default_factory=list)
    children: dict[str, str] = msgspec.field(default_factory=dict)
    request_key: str | None = None
    used: float = 0.0
    turns: StepTurns = msgspec.field(default_factory=StepTurns)

    @classmethod
    def of(
        cls,
        playbook: Playbook,
        state: State,
        about: dict[str, JSON],
        secrets: Secrets,
        saved: int = 0,
    ) -> LoadedExecution:
        net, values = build_net(playbook), Values()
        turns = StepTurns(state.seq)
        return cls(playbook, net, state, about, values, secrets, saved, turns=turns)

    @property
    def may_have_secrets(self) -> bool:
        """Return whether any server may have sealed secrets for this execution: those
        of its keychain, its secret inputs, those that its tasks fetched, or those that
        relatives shared.
        """
        state, playbook = self.state, self.playbook
        if playbook.keychain or state.parent is not None or state.fork is not None:
            return True
        if secret_inputs(playbook):
            return True
        kinds = {task.kind for step in playbook.workflow for task in step.tasks}
        return not kinds.isdisjoint(_KINDS_WITH_SECRETS)


EVENTS_PER_READ = 2_000
"""Events read at once: a log may be larger than memory."""

_states = msgspec.json.Decoder(State)


def freeze(state: State) -> bytes:
    """Encode a state as the body of a snapshot."""
    return msgspec.json.encode(state)


def thaw(body: bytes) -> State:
    """Decode the body of a snapshot."""
    return _states.decode(body)
