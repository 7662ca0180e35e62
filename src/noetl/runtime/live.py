"""An execution in memory: the state is the log folded, checked by its position."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.batch import Batch
from noetl.engine.evolve import replay
from noetl.engine.pipeline import Frame
from noetl.engine.progress import Progress
from noetl.engine.references import Values
from noetl.engine.secrets import Secrets
from noetl.engine.state import State
from noetl.errors import NoetlError
from noetl.net.net import Net, build_net
from noetl.ports import Lease, Store
from noetl.types import JSON

PAGE = 2_000
"""Events that are read at once: a log may be larger than memory."""

_KEYED = ("secrets", "playbook")
_states = msgspec.json.Decoder(State)

Decision = Callable[[Batch], bool | None]


class Work(msgspec.Struct, frozen=True):
    """Everything a pipeline needs to go on from where it is.

    ``begun`` says that the start of its first task is in the log already; ``source``
    is where the playbook's text is stored.
    """

    lease: Lease
    playbook: Playbook
    frame: Frame
    progress: Progress
    secrets: Secrets
    source: str = ""
    folder: str | None = None
    begun: bool = False


class Answer(msgspec.Struct):
    """``stop`` tells a worker to leave its pipeline; ``work`` is its next one.

    ``ctx`` is what others have written meanwhile (S-20); ``spilled`` says that it may
    hold references (S-48).
    """

    stop: bool = False
    ctx: dict[str, JSON] | None = None
    work: Work | None = None
    spilled: bool = False


class Wanting(msgspec.Struct, frozen=True):
    """An owner with a free slot, and the pool that it works for."""

    owner: str
    pool: str


class Input(msgspec.Struct):
    """Something to decide on. ``wants`` is who takes work of a pool, if it makes some;
    ``disarm`` is the timer that caused it. ``number`` is that of a remote worker's
    report. It has an answer, or an error."""

    decide: Decision
    future: asyncio.Future[Answer]
    lease: Lease | None = None
    wants: Wanting | None = None
    disarm: str | None = None
    number: int = 0
    answer: Answer | None = None
    error: NoetlError | None = None

    def reply(self) -> None:
        if self.error is not None:
            self.refuse(self.error)
        elif not self.future.done():  # whoever asked may have been cancelled
            self.future.set_result(self.answer or Answer())

    def refuse(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Live(msgspec.Struct):
    """``inbox`` is what waits to be decided; ``busy`` while somebody does that. It is
    ``stale`` if the log may have grown without this process. ``request_key`` is for
    its first commit. ``used`` is when somebody last wanted something of it.
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
    inbox: list[Input] = msgspec.field(default_factory=list)
    children: dict[str, str] = msgspec.field(default_factory=dict)
    request_key: str | None = None
    used: float = 0.0

    @classmethod
    def of(
        cls, playbook: Playbook, state: State, about: dict[str, JSON], secrets: Secrets
    ) -> Live:
        net, values = build_net(playbook), Values()
        return cls(playbook, net, state, about, values, secrets, state.seq)

    @property
    def may_have_secrets(self) -> bool:
        """Whether some may be sealed for it, by whatever server: its own, those that
        its tasks looked up, or those that relatives gave it."""
        state, playbook = self.state, self.playbook
        if playbook.keychain or state.parent is not None or state.fork is not None:
            return True
        kinds = {task.kind for step in playbook.workflow for task in step.tasks}
        return not kinds.isdisjoint(_KEYED)


def freeze(state: State) -> bytes:
    return msgspec.json.encode(state)


def thaw(body: bytes) -> State:
    return _states.decode(body)


async def fold(store: Store, execution_id: str) -> State:
    """The state as the store has it: the last snapshot, and the events after it."""
    snapshot = await store.snapshot(execution_id)
    state = thaw(snapshot.body) if snapshot is not None else State()
    while events := await store.read(execution_id, after=state.seq, limit=PAGE):
        replay(events, state)
    return state
