"""Which arcs of a router may fire, and which must, after each outcome of its step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from noetl.dsl.model import Arc, Router, Step
from noetl.net.guards import YES, Event, read_guard
from noetl.net.outcomes import Outcome, boundary_events

Firing = Literal["never", "maybe", "always"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a router says to one boundary event; arcs are numbered in YAML order.

    ``settled`` means that some arc fires for certain, even where none of them must:
    of a guarded arc and the unguarded one after it, one always wins.
    """

    may: tuple[int, ...]
    must: frozenset[int]
    settled: bool


def answer_outcome(step: Step, outcome: Outcome) -> tuple[Answer, ...]:
    """One answer per boundary event, up to the one after which nothing is asked."""
    answers: list[Answer] = []
    for event in boundary_events(step, outcome) if step.next else ():
        answers.append(_answer(step.next, event))
        if answers[-1].settled:
            break
    return tuple(answers)


def firing_of(number: int, answers: tuple[Answer, ...]) -> Firing:
    """Whether one arc fires, given all that its router answers to an outcome."""
    for answer in answers:
        if number in answer.must:
            return "always"
        if answer.may:
            break  # another arc may end the asking before a later event
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
        if verdicts == YES:  # NEXT-05: nothing after it is ever asked
            return Answer(tuple(may), frozenset(may[:1] if len(may) == 1 else ()), True)
    return Answer(tuple(may), frozenset(), False)


def _answer_all(arcs: tuple[Arc, ...], event: Event) -> Answer:
    verdicts = [read_guard(arc.when, event) for arc in arcs]
    may = tuple(n for n, found in enumerate(verdicts) if "true" in found)
    must = frozenset(n for n, found in enumerate(verdicts) if found == YES)
    return Answer(may, must, bool(must))
