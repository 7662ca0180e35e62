"""The Petri net of a playbook: steps are transitions, arcs are places with guards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noetl.dsl.model import Arc, Mode, Playbook, Step
from noetl.net.outcomes import OUTCOMES, Outcome, find_outcomes
from noetl.net.routing import Answer, Firing, answer_outcome, firing_of


@dataclass(frozen=True, slots=True)
class Edge:
    """An arc as a place: the queue of tokens from one step to another.

    ``number`` is its position in the router, which decides in exclusive mode.
    """

    source: str
    target: str
    number: int
    mode: Mode
    arc: Arc


class Net:
    """The net, immutable; what is costly to know is found out when first asked.

    Arcs to steps that do not exist (the validator's business) are not part of it.
    """

    def __init__(self, playbook: Playbook) -> None:
        self.name = playbook.name
        self.steps: Mapping[str, Step] = playbook.steps
        self.entry: str | None = playbook.entry.name if playbook.entry else None
        self._out: dict[str, list[Edge]] = {name: [] for name in self.steps}
        self._into: dict[str, list[Edge]] = {name: [] for name in self.steps}
        for step in self.steps.values():
            self._add_arcs(step)
        self._order = {name: number for number, name in enumerate(self.steps)}
        self._outcomes: dict[str, frozenset[Outcome]] = {}
        self._answers: dict[tuple[str, Outcome], tuple[Answer, ...]] = {}
        self._reachers: dict[tuple[str, str | None], bytearray] = {}

    def _add_arcs(self, step: Step) -> None:
        if step.next is None:
            return
        for number, arc in enumerate(step.next.arcs):
            if arc.step in self.steps:
                edge = Edge(step.name, arc.step, number, step.next.mode, arc)
                self._out[step.name].append(edge)
                self._into[arc.step].append(edge)

    @property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(edge for edges in self._out.values() for edge in edges)

    def arcs_from(self, step: str) -> tuple[Edge, ...]:
        return tuple(self._out[step])

    def arcs_to(self, step: str) -> tuple[Edge, ...]:
        return tuple(self._into[step])

    def successors(self, step: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(edge.target for edge in self._out[step]))

    def predecessors(self, step: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(edge.source for edge in self._into[step]))

    def sources(self, join_step: str) -> tuple[str, ...]:
        """The steps whose tokens a join waits for: ``from``, else all with an arc."""
        join = self.steps[join_step].join
        if join is not None and join.sources is not None:
            return tuple(dict.fromkeys(join.sources))
        return self.predecessors(join_step)

    def outcomes(self, step: str) -> frozenset[Outcome]:
        """How the step can end; what is left out is certain not to happen."""
        if step not in self._outcomes:
            self._outcomes[step] = find_outcomes(self.steps[step])
        return self._outcomes[step]

    def answers(self, step: str, outcome: Outcome) -> tuple[Answer, ...]:
        """What the step's router says to the events of ``outcome``, in order."""
        key = (step, outcome)
        if key not in self._answers:
            self._answers[key] = answer_outcome(self.steps[step], outcome)
        return self._answers[key]

    def firing(self, edge: Edge, outcome: Outcome) -> Firing:
        """Whether the arc fires when its step ends in ``outcome``."""
        if outcome not in self.outcomes(edge.source):
            return "never"
        return firing_of(edge.number, self.answers(edge.source, outcome))

    def is_live(self, edge: Edge) -> bool:
        """Whether there is any outcome of its step after which the arc may fire."""
        return any(self.firing(edge, outcome) != "never" for outcome in OUTCOMES)

    def reaches(self, source: str, target: str, avoiding: str | None = None) -> bool:
        """Whether a token at ``source`` can get to ``target`` along the arcs.

        Along the way, ends not counted, it does not pass the step ``avoiding``. A
        token that is there already has reached it. Guards are not asked.
        """
        if source == target:
            return True
        if target not in self._order or source not in self._order:
            return False
        key = (target, avoiding)
        if key not in self._reachers:
            self._reachers[key] = self._find_reachers(target, avoiding)
        return bool(self._reachers[key][self._order[source]])

    def can_deliver(self, source: str, join_step: str, token_at: str) -> bool:
        """Whether a token at a step can make ``source`` send one to the join (S-04).

        Without passing the join itself: a run of the join that is already under way
        may go on to ``source``, a token that still waits in the join may not.
        """
        if all(edge.source != source for edge in self._into[join_step]):
            return False
        if source == join_step:  # only a run under way: to start one is to pass it
            return token_at == join_step
        return self.reaches(token_at, source, avoiding=join_step)

    def _find_reachers(self, target: str, avoiding: str | None) -> bytearray:
        """A flag per step, walking backwards; a byte each keeps thousands of these."""
        flags = bytearray(len(self._order))
        pending = [target]
        while pending:
            for edge in self._into[pending.pop()]:
                number = self._order[edge.source]
                if not flags[number]:
                    flags[number] = 1
                    if edge.source != avoiding:
                        pending.append(edge.source)
        return flags


def build_net(playbook: Playbook) -> Net:
    """The net of a valid playbook."""
    return Net(playbook)
