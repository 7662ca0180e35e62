"""Playbooks at random: a document, and what each of its templates means in Python.

``serial`` ones hold one token at a time and read and write ctx freely. ``forked`` ones
have concurrency, and only such templates that no schedule can change.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from reference import Answer, Broken, Scope, Undefined

Flavour = Literal["serial", "forked"]
Number = tuple[str, Callable[[Scope], Any]]

OUTCOMES = "outcome"
JUMPY = 7  # a result, and with "jumpy" an error, that no third visit gives


@dataclass
class Case:
    seed: str
    flavour: Flavour
    doc: dict[str, Any]
    meaning: dict[str, Callable[[Scope], Any]]
    ordered: bool
    """Nothing runs beside anything else: even the order is decided."""
    plain: bool
    """Tokens carry no args, so it does not matter which ones meet in a join."""
    counts: dict[str, int] = field(default_factory=dict)

    def answer(
        self, label: str, path: tuple[int, ...], visit: int, attempt: int
    ) -> Answer:
        """What the tool says: the same for the same call, whoever asks."""
        key = f"{self.seed}:{label}:{path}:{visit}:{attempt}"
        roll = zlib.crc32(key.encode()) % 100
        if roll < 6 and visit <= 2:
            return "ok", JUMPY
        if roll < 10 and visit <= 2:
            return "error", "jumpy"
        if roll < (24 if attempt < 3 else 14):
            return "error", f"k{roll % 2}"
        return "ok", roll % 4


def generate(seed: str) -> Case:
    return Writer(seed).write()


class Writer:
    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.flavour: Flavour = self.random.choice(("serial", "forked"))
        self.meaning: dict[str, Callable[[Scope], Any]] = {}
        self.counts: dict[str, int] = {}
        self.plain = False  # no args at all: joins of any or n take whose come first
        self.ordered = self.flavour == "serial"

    def write(self) -> Case:
        count = self.random.randint(1, 12)
        names = [f"s{number}" for number in range(count)]
        if self.chance(0.4):
            names[0] = "start"
        self.plain = self.flavour == "forked" and self.chance(0.4)
        steps = [self.step(number, names) for number in range(count)]
        if self.flavour == "forked":
            self.add_joins(steps, names)
        entry, rest = steps[0], steps[1:]
        if names[0] == "start" and self.chance(0.5):
            self.random.shuffle(rest)
            steps = [*rest, entry]
        doc = {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": "generated", "path": f"tests/{self.seed}"},
            "workload": {"a": 2, "b": 5, "q": 1, "list": [3, 1, 2], "none": []},
            "workflow": steps,
        }
        return Case(
            self.seed,
            self.flavour,
            doc,
            self.meaning,
            self.ordered,
            self.plain,
            self.counts,
        )

    # -- chances -----------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def note(self, production: str) -> None:
        self.counts[production] = self.counts.get(production, 0) + 1

    # -- steps -------------------------------------------------------------------

    def step(self, number: int, names: list[str]) -> dict[str, Any]:
        name = names[number]
        step: dict[str, Any] = {"step": name}
        later = names[number + 1 :]
        router = self.router(name, number, names, later) if names[1:] else None
        has_tool = router is None or self.chance(0.8)
        if has_tool:
            depth = self.random.choice((1, 1, 1, 2, 2, 3)) if self.chance(0.35) else 0
            if depth:
                step["loop"] = self.loop(depth)
                self.note(f"loop depth {depth}")
                if self.chance(0.3):
                    self.policy_of(step)["failure"] = "best_effort"
                    self.note("best effort")
            step["tool"] = self.pipeline(name, step)
        if self.chance(0.15):
            self.policy_of(step)["admit"] = {"rules": self.admission()}
            self.note("admit")
        if router is not None:
            step["next"] = router
        return step

    def policy_of(self, step: dict[str, Any]) -> dict[str, Any]:
        policy: dict[str, Any] = step.setdefault("spec", {}).setdefault("policy", {})
        return policy

    def admission(self) -> list[dict[str, Any]]:
        rules: list[dict[str, Any]] = [
            {"when": self.guard(("args",)), "then": {"allow": self.chance(0.6)}}
            for _ in range(self.random.randint(1, 2))
        ]
        if self.chance(0.7):
            place = self.random.randint(0, len(rules))
            rules.insert(place, {"else": {"then": {"allow": self.chance(0.7)}}})
        return rules

    def router(
        self, name: str, number: int, names: list[str], later: list[str]
    ) -> dict[str, Any] | None:
        arcs: list[dict[str, Any]] = []
        if not self.plain and self.chance(0.2):
            arcs.append(self.back_arc(name, self.random.choice(names[: number + 1])))
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3))):
            if later:
                target = self.random.choice(later[:4])
                arcs.append(self.arc(target))
        if not arcs:
            return None
        router: dict[str, Any] = {"arcs": arcs}
        if self.flavour == "serial":
            router["spec"] = {"mode": "exclusive"} if self.chance(0.3) else {}
            if len(arcs) == 2 and self.chance(0.4):
                self.part(arcs)
                router["spec"] = {"mode": "inclusive"}
        elif self.chance(0.6):
            router["spec"] = {"mode": "inclusive"}
        mode = router.get("spec", {}).get("mode", "exclusive")
        self.note(f"router {mode}")
        return router

    def part(self, arcs: list[dict[str, Any]]) -> None:
        """Two arcs of which never both fire on one event."""
        good = "{{ event.status == 'success' }}"
        bad = "{{ event.name == 'step.failed' }}"
        self.meaning[good] = lambda s: s["event"]["status"] == "success"
        self.meaning[bad] = lambda s: s["event"]["name"] == "step.failed"
        if "when" not in arcs[0]:
            arcs[0]["when"], arcs[1]["when"] = bad, good
            return
        arcs[0]["when"] = self.both(arcs[0]["when"], good)
        arcs[1]["when"] = bad

    def both(self, one: str, other: str) -> str:
        first, second = self.meaning[one], self.meaning[other]
        text = f"{{{{ ({one[3:-3]}) and ({other[3:-3]}) }}}}"
        self.meaning[text] = lambda s: first(s) and second(s)
        return text

    def arc(self, target: str) -> dict[str, Any]:
        arc: dict[str, Any] = {"step": target}
        if self.chance(0.6):
            arc["when"] = self.guard(("args", "event"))
        if not self.plain and self.chance(0.3):
            keys = self.random.sample(("n", "q", "w"), self.random.randint(1, 2))
            arc["args"] = {key: self.number(("args",)) for key in keys}
            self.note("arc args")
        return arc

    def back_arc(self, name: str, target: str) -> dict[str, Any]:
        self.note("back arc")
        key, most = f"c_{name}", self.random.randint(1, 2)
        when = f"{{{{ (args.{key} | default(0)) < {most} }}}}"
        more = f"{{{{ (args.{key} | default(0)) + 1 }}}}"
        self.meaning[when] = lambda s: s["args"].get(key, 0) < most
        self.meaning[more] = lambda s: s["args"].get(key, 0) + 1
        return {"step": target, "when": when, "args": {key: more}}

    def add_joins(self, steps: list[dict[str, Any]], names: list[str]) -> None:
        for step in steps[1:]:
            name = step["step"]
            senders = [s["step"] for s in steps if name in targets(s)]
            if len(senders) < 2 or not self.chance(0.5):
                continue
            join: dict[str, Any] = {}
            if self.plain and self.chance(0.7):
                join["mode"] = self.random.choice(("any", "any", 1, 2, len(senders)))
            elif self.chance(0.5):
                join["mode"] = "all"
            if self.chance(0.4):
                size = self.random.randint(2, len(senders))
                join["from"] = self.random.sample(senders, size)
            step.setdefault("spec", {})["join"] = join or {"mode": "all"}
            self.note(f"join {join.get('mode', 'all')}")

    # -- loops -------------------------------------------------------------------

    def loop(self, depth: int, level: int = 1) -> dict[str, Any]:
        loop: dict[str, Any] = {"in": self.items(level), "iterator": f"x{level}"}
        mode = self.random.choice(("sequential", "parallel", None))
        if mode is not None:
            loop["spec"] = {"mode": mode}
            if mode == "parallel" and self.chance(0.6):
                loop["spec"]["max_in_flight"] = self.random.randint(1, 4)
        if mode == "parallel" and loop["spec"].get("max_in_flight", 10) > 1:
            self.ordered = False
        self.note(f"loop {mode or 'default'}")
        if depth > level:
            loop["loop"] = self.loop(depth, level + 1)
        return loop

    def items(self, level: int) -> Any:
        most = {1: 6, 2: 3, 3: 2}[level]
        roll = self.random.random()
        if roll < 0.03:
            text = "{{ workload.a }}"
            self.meaning[text] = lambda s: s["workload"]["a"]
        elif roll < 0.05:
            text = self.broken()
        elif roll < 0.12:
            text = "{{ workload.none }}"
            self.meaning[text] = lambda s: s["workload"]["none"]
        elif roll < 0.25:
            text = "{{ workload.list }}"
            self.meaning[text] = lambda s: s["workload"]["list"]
        elif roll < 0.35 and level > 1:
            text = "{{ range(iter.index + 1) }}"
            self.meaning[text] = lambda s: list(range(s["iter"]["index"] + 1))
        elif roll < 0.6:
            count = self.random.randint(0, most)
            text = f"{{{{ range({count}) }}}}"
            self.meaning[text] = lambda s: list(range(count))
        else:
            size = self.random.randint(0, most)
            return [self.random.randint(0, 4) for _ in range(size)]
        return text

    # -- pipelines ---------------------------------------------------------------

    def pipeline(self, name: str, step: dict[str, Any]) -> list[dict[str, Any]]:
        count = self.random.choice((1, 1, 2, 2, 3, 4, 5, 6))
        labels = [f"{name}_t{number}" for number in range(count)]
        depth = 0
        level = step.get("loop")
        parallel = False
        while level is not None:
            depth += 1
            parallel = parallel or level.get("spec", {}).get("mode") == "parallel"
            level = level.get("loop")
        return [
            {label: self.task(label, labels, name, depth, parallel)} for label in labels
        ]

    def task(
        self, label: str, labels: list[str], name: str, depth: int, parallel: bool
    ) -> dict[str, Any]:
        names = ("args", "task", *(("iter",) if depth else ()))
        names += ("parent",) if depth > 1 else ()
        task: dict[str, Any] = {"kind": "noop", "v": self.number(names)}
        if self.chance(0.6):
            rules = [
                self.rule(labels, names, name, depth, parallel)
                for _ in range(self.random.randint(1, 3))
            ]
            if self.chance(0.5):
                fallback = self.fallback(names, name, depth, parallel)
                rules.insert(self.random.randint(0, len(rules)), fallback)
            task["spec"] = {"policy": {"rules": rules}}
        return task

    def rule(
        self,
        labels: list[str],
        names: tuple[str, ...],
        name: str,
        depth: int,
        parallel: bool,
    ) -> dict[str, Any]:
        verbs = ("continue", "retry", "retry", "jump", "break", "fail", "skip")
        do = self.random.choice(verbs)
        then: dict[str, Any] = {"do": do}
        if do == "jump":
            then["to"] = self.random.choice(labels)
            when = "{{ outcome.result == 7 or outcome.error.kind == 'jumpy' }}"
            self.meaning[when] = is_jumpy
        elif do == "retry":
            when = self.guard((*names, OUTCOMES, OUTCOMES))
            self.retry(then)
        elif do == "skip" and self.chance(0.6):
            when = self.guard(names)
        else:
            when = self.guard((*names, OUTCOMES))
        self.note(f"do {do}")
        self.patches(then, names, name, depth, parallel)
        return {"when": when, "then": then}

    def fallback(
        self, names: tuple[str, ...], name: str, depth: int, parallel: bool
    ) -> dict[str, Any]:
        verbs = ("continue",) * 5 + ("fail", "break", "skip", "retry")
        then: dict[str, Any] = {"do": self.random.choice(verbs)}
        if then["do"] == "retry":
            self.retry(then)
        self.note(f"else {then['do']}")
        self.patches(then, names, name, depth, parallel)
        return {"else": {"then": then}}

    def retry(self, then: dict[str, Any]) -> None:
        if self.chance(0.7):
            then["attempts"] = self.random.randint(1, 4)
        if self.chance(0.5):
            then["delay"] = self.random.choice((0, 1, 0.5))
            then["backoff"] = self.random.choice(("none", "linear", "exponential"))

    def patches(
        self,
        then: dict[str, Any],
        names: tuple[str, ...],
        name: str,
        depth: int,
        parallel: bool,
    ) -> None:
        if depth and self.chance(0.3):
            keys = self.random.sample(("m", "o.p", "o.r"), self.random.randint(1, 2))
            then["set_iter"] = {key: self.number(names) for key in keys}
            self.note("set_iter")
        if not self.chance(0.3):
            return
        if self.flavour == "forked":
            shape = len(name) + sum(map(ord, name))
            key = (f"k_{name}", f"d.{name}", f"d.{name}.e")[shape % 3]
            then["set_ctx"] = {key: shape}
        elif not parallel:
            keys = self.random.sample(("k", "n", "q", "d.a", "d.b", "d"), 2)
            then["set_ctx"] = {key: self.number(names) for key in keys}
        self.note("set_ctx")

    # -- templates ---------------------------------------------------------------

    def number(self, names: tuple[str, ...]) -> Any:
        roll = self.random.random()
        if roll < 0.2:
            return self.random.randint(0, 4)
        if roll < 0.215:
            return self.broken()
        if roll < 0.23:
            text = "{{ workload.absent }}"
            self.meaning[text] = is_undefined
            return text
        text, value = self.atom(names)
        if self.chance(0.4):
            one, other = (text, value), self.atom(names)
            text = f"({one[0]}) + ({other[0]})"

            def value(s: Scope) -> Any:
                return one[1](s) + other[1](s)

        text = f"{{{{ {text} }}}}"
        self.meaning[text] = value
        return text

    def broken(self) -> str:
        text = "{{ workload.a // 0 }}"
        self.meaning[text] = is_broken
        return text

    def guard(self, names: tuple[str, ...]) -> str:
        if self.chance(0.015):
            return self.broken()
        text, value = self.test(names)
        roll = self.random.random()
        if roll < 0.15:
            one, other = (text, value), self.test(names)
            text = f"({one[0]}) and ({other[0]})"
            value = conjunction(one[1], other[1])
        elif roll < 0.3:
            one, other = (text, value), self.test(names)
            text = f"({one[0]}) or ({other[0]})"
            value = disjunction(one[1], other[1])
        elif roll < 0.4:
            inner = value
            text, value = f"not ({text})", lambda s: not inner(s)
        text = f"{{{{ {text} }}}}"
        self.meaning[text] = value
        return text

    def test(self, names: tuple[str, ...]) -> Number:
        name = self.random.choice(names)
        if name == OUTCOMES:
            return self.random.choice(OUTCOME_TESTS)
        if name == "event":
            return self.random.choice(EVENT_TESTS)
        text, value = self.atom(names)
        limit = self.random.randint(0, 4)
        sign = self.random.choice(("<", ">", "==", "!="))
        return f"({text}) {sign} {limit}", COMPARE[sign](value, limit)

    def atom(self, names: tuple[str, ...]) -> Number:
        choices = [*WORKLOAD]
        if not self.plain:
            choices += ARGS
        if self.flavour == "serial":
            choices += CTX
        if "task" in names:
            choices += TASK
        if "iter" in names:
            choices += ITER
        if "parent" in names:
            choices += PARENT
        return self.random.choice(choices)


def targets(step: dict[str, Any]) -> list[str]:
    router = step.get("next")
    return [arc["step"] for arc in router["arcs"]] if router else []


def is_jumpy(s: Scope) -> bool:
    return s["outcome"]["result"] == JUMPY or error_kind(s) == "jumpy"


def is_broken(s: Scope) -> Any:
    raise Broken


def is_undefined(s: Scope) -> Any:
    raise Undefined


def error_kind(s: Scope) -> Any:
    return (s["outcome"]["error"] or {}).get("kind")


def lookup(s: Scope, name: str) -> Any:
    for space in ("args", "ctx", "iter", "workload"):
        if name in s.get(space, {}):
            return s[space][name]
    return 0


def conjunction(one: Any, other: Any) -> Callable[[Scope], Any]:
    return lambda s: one(s) and other(s)


def disjunction(one: Any, other: Any) -> Callable[[Scope], Any]:
    return lambda s: one(s) or other(s)


def nested(s: Scope, key: str) -> Any:
    inner = s["ctx"].get("d")
    return inner.get(key, 0) if isinstance(inner, dict) else 0


COMPARE: dict[str, Callable[[Any, int], Callable[[Scope], bool]]] = {
    "<": lambda value, limit: lambda s: value(s) < limit,
    ">": lambda value, limit: lambda s: value(s) > limit,
    "==": lambda value, limit: lambda s: value(s) == limit,
    "!=": lambda value, limit: lambda s: value(s) != limit,
}
WORKLOAD: list[Number] = [
    ("workload.a", lambda s: s["workload"]["a"]),
    ("b", lambda s: s["workload"]["b"]),
]
ARGS: list[Number] = [
    ("args.n | default(0)", lambda s: s["args"].get("n", 0)),
    ("q | default(0)", lambda s: lookup(s, "q")),
    ("w | default(0)", lambda s: lookup(s, "w")),
]
CTX: list[Number] = [
    ("ctx.k | default(0)", lambda s: s["ctx"].get("k", 0)),
    ("ctx.d.a | default(0)", lambda s: nested(s, "a")),
    ("ctx.d.b | default(0)", lambda s: nested(s, "b")),
    ("n | default(0)", lambda s: lookup(s, "n")),
]
TASK: list[Number] = [
    ("_attempt", lambda s: s["_attempt"]),
    ("_prev | default(0, true)", lambda s: s["_prev"] or 0),
    ("_task | length", lambda s: len(s["_task"])),
]
ITER: list[Number] = [
    ("iter.index", lambda s: s["iter"]["index"]),
    ("iter.x1 | default(iter.parent.index)", lambda s: first_item(s)),
    ("iter.m | default(0)", lambda s: s["iter"].get("m", 0)),
    ("iter.o.p | default(0)", lambda s: s["iter"].get("o", {}).get("p", 0)),
    ("m | default(0)", lambda s: lookup(s, "m")),
]
PARENT: list[Number] = [
    ("iter.parent.index", lambda s: s["iter"]["parent"]["index"]),
    ("iter.x2 | default(iter.parent.x2)", lambda s: second_item(s)),
    ("iter.parent.m | default(0)", lambda s: 0),
]
OUTCOME_TESTS: list[Number] = [
    ("outcome.status == 'error'", lambda s: s["outcome"]["status"] == "error"),
    ("outcome.status == 'ok'", lambda s: s["outcome"]["status"] == "ok"),
    ("outcome.result == 1", lambda s: s["outcome"]["result"] == 1),
    ("outcome.error.kind == 'k0'", lambda s: error_kind(s) == "k0"),
    ("outcome.result > 1", lambda s: (s["outcome"]["result"] or 0) > 1),
]
EVENT_TESTS: list[Number] = [
    ("event.name == 'step.done'", lambda s: s["event"]["name"] == "step.done"),
    ("event.name == 'step.failed'", lambda s: s["event"]["name"] == "step.failed"),
    ("event.name == 'loop.done'", lambda s: s["event"]["name"] == "loop.done"),
    ("event.status == 'success'", lambda s: s["event"]["status"] == "success"),
    ("event.payload.result == 2", lambda s: s["event"]["payload"].get("result") == 2),
]


def first_item(s: Scope) -> Any:
    scope = s["iter"]
    return scope["x1"] if "x1" in scope else scope["parent"]["index"]


def second_item(s: Scope) -> Any:
    scope = s["iter"]
    return scope["x2"] if "x2" in scope else scope["parent"]["x2"]
