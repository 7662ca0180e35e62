"""Petri net of a playbook: steps are transitions, arcs are places with guards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from noetl.dsl.model import Arc, Mode, Playbook, Router, Step
from noetl.net.guards import YES, Event, read_guard
from noetl.net.step_outcomes import OUTCOMES, Outcome, boundary_events, find_outcomes

Firing = Literal["never", "maybe", "always"]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a router to one boundary event; arcs are numbered in YAML order.

    ``settled`` means that some arc fires for certain, even where none of them must: of
    a guarded arc and the unguarded one after it, one always wins.
    """

    may: tuple[int, ...]
    must: frozenset[int]
    settled: bool


def answer_outcome(step: Step, outcome: Outcome) -> tuple[Answer, ...]:
    """Return one answer per boundary event, up to the last event evaluated."""
    answers: list[Answer] = []
    for event in boundary_events(step, outcome) if step.next else ():
        answers.append(_answer(step.next, event))
        if answers[-1].settled:
            break
    return tuple(answers)


def firing_of(number: int, answers: tuple[Answer, ...]) -> Firing:
    """Return whether one arc fires, given the answers of its router to an outcome."""
    for answer in answers:
        if number in answer.must:
            return "always"
        if answer.may:
            break  # another arc may fire before a later event
    return "maybe" if any(number in answer.may for answer in answers) else "never"


def _answer(router: Router | None, event: Event) -> Answer:
    if router is None:
        return Answer((), frozenset(), False)
    if router.mode == "inclusive":
        return _answer_all(router.arcs, event)
    return _answer_first(router.arcs, event)


def _answer_first(arcs: tuple[Arc, ...], event: Event) -> Answer:
    may: list[int] = []
    for number, arc in enumerate(arcs):
        verdicts = read_guard(arc.when, event)
        if "true" not in verdicts:
            continue
        may.append(number)
        if verdicts == YES:  # NEXT-05: no arc after it is evaluated
            return Answer(tuple(may), frozenset(may[:1] if len(may) == 1 else ()), True)
    return Answer(tuple(may), frozenset(), False)


def _answer_all(arcs: tuple[Arc, ...], event: Event) -> Answer:
    verdicts = [read_guard(arc.when, event) for arc in arcs]
    may = tuple(n for n, found in enumerate(verdicts) if "true" in found)
    must = frozenset(n for n, found in enumerate(verdicts) if found == YES)
    return Answer(may, must, bool(must))


@dataclass(frozen=True, slots=True)
class Edge:
    """Arc as a place: the queue of tokens from one step to another.

    ``number`` is its position in the router, which decides in exclusive mode.
    """

    source: str
    target: str
    number: int
    mode: Mode
    arc: Arc


class Net:
    """Immutable net; costly properties are computed on first use.

    Arcs to steps that do not exist, which the validator reports, are not part of it.
    ``bounded`` says that the playbook sets limits or a deadline of its executions.
    """

    def __init__(self, playbook: Playbook) -> None:
        self.name = playbook.name
        spec = playbook.executor.get("spec") or {}
        self.bounded = bool(spec.get("limits")) or spec.get("deadline") is not None
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
        """Return the steps that a join waits for: ``from``, else all with an arc."""
        join = self.steps[join_step].join
        if join is not None and join.sources is not None:
            return tuple(dict.fromkeys(join.sources))
        return self.predecessors(join_step)

    def outcomes(self, step: str) -> frozenset[Outcome]:
        """Return the possible outcomes of the step; others certainly do not happen."""
        if step not in self._outcomes:
            self._outcomes[step] = find_outcomes(self.steps[step])
        return self._outcomes[step]

    def answers(self, step: str, outcome: Outcome) -> tuple[Answer, ...]:
        """Return the answers of the step's router to the events of ``outcome``, in
        order."""
        key = (step, outcome)
        if key not in self._answers:
            self._answers[key] = answer_outcome(self.steps[step], outcome)
        return self._answers[key]

    def firing(self, edge: Edge, outcome: Outcome) -> Firing:
        """Return whether the arc fires when its step ends in ``outcome``."""
        if outcome not in self.outcomes(edge.source):
            return "never"
        return firing_of(edge.number, self.answers(edge.source, outcome))

    def asks_for(self, edge: Edge, outcome: Outcome) -> bool:
        """Return whether the arc may fire if its step ends in ``outcome``, which may
        be an end that the step cannot have."""
        return firing_of(edge.number, self.answers(edge.source, outcome)) != "never"

    def is_live(self, edge: Edge) -> bool:
        """Return whether the arc may fire after some outcome of its step."""
        return any(self.firing(edge, outcome) != "never" for outcome in OUTCOMES)

    def reaches(self, source: str, target: str, avoiding: str | None = None) -> bool:
        """Return whether a token at ``source`` can get to ``target`` along the arcs.

        The path, ends not counted, does not pass the step ``avoiding``. A token that is
        there already has reached it. Guards are ignored.
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
        """Return whether a token at a step can make ``source`` send one to the join
        (S-04).

        The path does not pass the join itself: a run of the join that has started may
        go on to ``source``, a token that still waits in the join may not.
        """
        if all(edge.source != source for edge in self._into[join_step]):
            return False
        if (
            source == join_step
        ):  # only a run that has started: starting one passes the join
            return token_at == join_step
        return self.reaches(token_at, source, avoiding=join_step)

    def _find_reachers(self, target: str, avoiding: str | None) -> bytearray:
        """Return a flag per step, found backwards; one byte each, as nets have
        thousands."""
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
    """Build the net of a valid playbook."""
    return Net(playbook)
