"""A second interpreter, naive on purpose, written from the specification alone.

It shares nothing with noetl: a playbook is a plain mapping, and a template means what
the Python function beside it says (``meaning``). A run happens all at once, one token
after the other: for playbooks whose end does not depend on the schedule that is enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Scope = dict[str, Any]
Meaning = Mapping[str, Callable[[Scope], Any]]
Answer = tuple[str, Any]
"""``("ok", result)`` or ``("error", kind)``."""
Script = Callable[[str, tuple[int, ...], int, int], Answer]
"""Label, iteration, visit, attempt → what the tool says."""


class Broken(Exception):
    """A template that cannot be evaluated."""


class Undefined(Broken):
    """A template that needs what is not there."""


class TooMuch(Exception):
    """The playbook runs for too long to be worth comparing."""


@dataclass(frozen=True)
class Action:
    """One task execution. ``seen`` is its rendered input, None if the body was skipped
    or the input could not be rendered."""

    step: str
    path: tuple[int, ...]
    label: str
    visit: int
    attempt: int
    seen: Any
    do: str
    delay: float


@dataclass(frozen=True)
class Ending:
    """One token that was denied, or one run that ended."""

    step: str
    status: str
    args: str
    result: str


@dataclass(frozen=True)
class Counted:
    """One loop that ended in ``loop.done``."""

    step: str
    path: tuple[int, ...]
    total: int
    done: int
    failed: int
    results: str


@dataclass
class Token:
    step: str
    args: dict[str, Any]
    source: str | None
    event: dict[str, Any] | None


@dataclass
class Trace:
    """What a run of the playbook amounts to."""

    status: str = "completed"
    ctx: dict[str, Any] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    loops: list[Counted] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    result: Any = None
    loose: set[str] = field(default_factory=set)
    """Steps whose details depend on the schedule: parallel loops that failed fast."""
    pairing: bool = False
    """Which tokens of a join meet depends on the schedule: it got two of one source, or
    its step was run past it and may send one more."""


class PipelineFailed(Exception):
    def __init__(self, kind: str) -> None:
        self.kind = kind


class Reference:
    def __init__(
        self, doc: dict[str, Any], meaning: Meaning, script: Script, bound: int = 250
    ) -> None:
        self.doc, self.meaning, self.script, self.bound = doc, meaning, script, bound
        self.steps = {step["step"]: step for step in doc["workflow"]}
        self.workload = doc.get("workload", {})
        self.tokens: deque[Token] = deque()
        self.waiting: dict[str, dict[str, list[Token]]] = {}
        self.late: dict[str, list[str]] = {}
        self.delivered: set[tuple[str | None, str]] = set()
        self.trace = Trace()
        self.work = 0

    # -- tokens ------------------------------------------------------------------

    def run(self) -> Trace:
        entry = "start" if "start" in self.steps else self.doc["workflow"][0]["step"]
        self.tokens.append(Token(entry, {}, None, None))
        while True:
            while self.tokens:
                self.arrive(self.tokens.popleft())
                self.forget_late()
            if not self.fire_one_join():
                break
        for step, queues in self.waiting.items():
            if any(queues.values()) and not self.trace.failures:
                self.trace.failures.append((step, "join.unreachable"))
        if self.trace.failures:
            self.trace.status = "failed"
        return self.trace

    def arrive(self, token: Token) -> None:
        join = self.join_of(token.step)
        way = (token.source, token.step)
        if join is not None and way in self.delivered:
            self.trace.pairing = True
        self.delivered.add(way)
        if join is None or token.source not in self.sources_of(token.step):
            if join is not None and self.feeds_itself(token.step):
                self.trace.pairing = True
            self.enter(token.step, token.args, token.event)
        elif token.source in self.late.get(token.step, []):
            self.late[token.step].remove(token.source)
        else:
            queues = self.waiting.setdefault(token.step, {})
            queues.setdefault(token.source or "", []).append(token)

    def enter(
        self, name: str, args: dict[str, Any], event: dict[str, Any] | None
    ) -> None:
        try:
            allowed = self.is_admitted(name, args, event)
        except Broken:
            self.trace.failures.append((name, "template"))
            allowed = False
        if allowed:
            self.fire(name, args)
        else:
            self.note(name, "skipped", args, None)

    def note(self, step: str, status: str, args: Any, result: Any) -> None:
        self.trace.endings.append(Ending(step, status, show(args), show(result)))

    def is_admitted(self, name: str, args: Any, event: Any) -> bool:
        gate = self.steps[name].get("spec", {}).get("policy", {}).get("admit")
        if gate is None:
            return True
        scope = self.scope(args, event=event)
        for rule in gate["rules"]:
            if "when" in rule and self.holds(rule["when"], scope):
                return bool(rule["then"]["allow"])
        for rule in gate["rules"]:
            if "else" in rule:
                return bool(rule["else"]["then"]["allow"])
        return not any(rule["then"]["allow"] for rule in gate["rules"])

    # -- joins -------------------------------------------------------------------

    def join_of(self, name: str) -> Any:
        return self.steps[name].get("spec", {}).get("join")

    def sources_of(self, name: str) -> list[str]:
        join = self.join_of(name)
        if "from" in join:
            return list(join["from"])
        return [s for s in self.steps if name in self.targets(s)]

    def feeds_itself(self, name: str) -> bool:
        """Whether a run of the step, begun past its join, may send the join a token:
        whether that meets those which wait depends on the schedule."""
        seen: set[str] = set()
        places = [name]
        while places:
            place = places.pop()
            if place in self.sources_of(name) and name in self.targets(place):
                return True
            if place not in seen:
                seen.add(place)
                places += self.targets(place)
        return False

    def targets(self, name: str) -> list[str]:
        router = self.steps[name].get("next")
        return [arc["step"] for arc in router["arcs"]] if router else []

    def fire_one_join(self) -> bool:
        for name, queues in self.waiting.items():
            sources = self.sources_of(name)
            there = [s for s in sources if queues.get(s)]
            missing = [s for s in sources if not queues.get(s)]
            need = self.join_of(name).get("mode", "all")
            if not there:
                continue
            if need == "all":
                if any(self.may_deliver(s, name) for s in missing):
                    continue
                taken = there
            else:
                count = 1 if need == "any" else need
                if len(there) < count:
                    continue
                taken = there[:count]
                self.late.setdefault(name, []).extend(missing)
                self.forget_late()
            tokens = {s: queues[s].pop(0) for s in there}
            merged: dict[str, Any] = {}
            for source in taken:
                merged.update(tokens[source].args)
            self.enter(name, merged, tokens[there[-1]].event)
            return True
        return False

    def may_deliver(self, source: str, join: str) -> bool:
        """Whether some token can still make ``source`` send one, not past the join."""
        if join not in self.targets(source):
            return False
        places = [token.step for token in self.tokens]
        places += [
            name
            for name, queues in self.waiting.items()
            if name != join and any(queues.values())
        ]
        seen: set[str] = set()
        while places:
            place = places.pop()
            if place in seen or place == join:
                continue
            if place == source:
                return True
            seen.add(place)
            places += self.targets(place)
        return False

    def forget_late(self) -> None:
        """A source that can no longer come is not late; one on its way still is."""
        on_its_way = {(token.source, token.step) for token in self.tokens}
        for name, sources in self.late.items():
            sources[:] = [
                s
                for s in sources
                if (s, name) in on_its_way or self.may_deliver(s, name)
            ]

    # -- a step run --------------------------------------------------------------

    def fire(self, name: str, args: dict[str, Any]) -> None:
        self.spend()
        step = self.steps[name]
        result: Any = None
        looped = "loop" in step
        try:
            if "tool" in step and looped:
                result = self.loop(step, step["loop"], args, (), None)
            elif "tool" in step:
                result = self.pipeline(step, args, (), None)
        except PipelineFailed as failed:
            self.note(name, "failed", args, None)
            event = boundary("step.failed", "error", {"error": {"kind": failed.kind}})
            fired, handled, _ = self.route(step, args, event)
            if not (fired and handled):
                self.trace.failures.append((name, failed.kind))
            return
        self.note(name, "done", args, result)
        fired = broken = False
        if looped:
            summary = {"results": result}
            fired, _, _ = self.route(
                step, args, boundary("loop.done", "success", summary)
            )
        if not fired:
            event = boundary("step.done", "success", {"result": result})
            fired, _, broken = self.route(step, args, event)
        if broken and not fired:
            self.trace.failures.append((name, "template"))
        if not fired:
            self.trace.result = result

    def route(self, step: Any, args: Any, event: Any) -> tuple[bool, bool, bool]:
        """Whether an arc fired, an arc with a guard did, a template was broken."""
        fired = handled = broken = False
        router = step.get("next", {"arcs": []})
        exclusive = router.get("spec", {}).get("mode", "exclusive") == "exclusive"
        for arc in router["arcs"]:
            if fired and exclusive:
                break
            scope = self.scope(args, event=event)
            try:
                if not self.holds(arc.get("when", True), scope):
                    continue
                sent = {**args, **self.render(arc.get("args", {}), scope)}
            except Broken:
                broken = True
                continue
            self.tokens.append(Token(arc["step"], sent, step["step"], event))
            fired = True
            handled = handled or "when" in arc
        return fired, handled, broken

    # -- loops -------------------------------------------------------------------

    def loop(self, step: Any, loop: Any, args: Any, path: Any, outer: Any) -> list[Any]:
        try:
            items = self.render(loop["in"], self.scope(args, iter=outer))
        except Broken:
            raise PipelineFailed("template") from None
        if not isinstance(items, list):
            raise PipelineFailed("loop.in_type")
        spec = step.get("spec", {}).get("policy", {})
        best_effort = spec.get("failure") == "best_effort"
        knobs = loop.get("spec", {})
        beside = knobs.get("max_in_flight", 10) > 1
        parallel = knobs.get("mode") == "parallel" and beside
        results: list[Any] = []
        first: str | None = None
        failed = 0
        for index, item in enumerate(items):
            scope = {loop["iterator"]: item, "index": index}
            if outer is not None:
                scope["parent"] = outer
            here = (*path, index)
            try:
                if "loop" in loop:
                    results.append(self.loop(step, loop["loop"], args, here, scope))
                else:
                    results.append(self.pipeline(step, args, here, scope))
            except PipelineFailed as error:
                results.append(None)
                failed += 1
                first = first or error.kind
                if not best_effort and not parallel:
                    break
        if failed and not best_effort:
            if parallel:
                self.trace.loose.add(step["step"])
            raise PipelineFailed(first or "")
        done = len(items) - failed
        self.trace.loops.append(
            Counted(step["step"], path, len(items), done, failed, show(results))
        )
        return results

    # -- pipelines ---------------------------------------------------------------

    def pipeline(self, step: Any, args: Any, path: tuple[int, ...], iter_: Any) -> Any:
        tasks = list(tasks_of(step))
        labels = [label for label, _ in tasks]
        visits: dict[str, int] = {}
        previous = result = None
        position = 0
        while position < len(tasks):
            label, task = tasks[position]
            visits[label] = visits.get(label, 0) + 1
            attempt = 1
            while True:
                self.spend()
                scope = self.scope(
                    args, iter=iter_, _prev=previous, _task=label, _attempt=attempt
                )
                rules = task.get("spec", {}).get("policy", {}).get("rules")
                seen: Any = None
                try:
                    then = self.early_skip(rules, scope)
                    answer: Answer = ("ok", None)
                    if then is None:
                        answer, seen = self.call(
                            task, scope, label, path, visits[label], attempt
                        )
                        failed = answer[0] == "error"
                        error = {"kind": answer[1]} if failed else None
                        scope["outcome"] = {
                            "status": answer[0],
                            "result": None if failed else answer[1],
                            "error": error,
                        }
                        then = self.judge(rules, scope, failed)
                    patch_ctx = self.render(then.get("set_ctx", {}), scope)
                    patch_iter = self.render(then.get("set_iter", {}), scope)
                except Broken:
                    self.act(step, path, label, visits, attempt, seen, "fail")
                    raise PipelineFailed("template") from None
                do, out = then["do"], None if answer[0] == "error" else answer[1]
                exhausted = do == "retry" and attempt >= then.get("attempts", 3)
                delay = 0.0
                if do == "retry" and not exhausted:
                    delay = wait(then, attempt)
                said = "fail" if exhausted else do
                self.act(step, path, label, visits, attempt, seen, said, delay)
                self.trace.ctx = patched(self.trace.ctx, patch_ctx)
                if iter_ is not None:
                    iter_ = patched(iter_, patch_iter)
                if do != "skip":
                    result = out
                if do not in ("skip", "retry"):
                    previous = out
                if exhausted or do == "fail":
                    kind = answer[1] if answer[0] == "error" else "policy.fail"
                    raise PipelineFailed(kind)
                if do != "retry":
                    break
                attempt += 1
            if do == "break":
                return result
            position = labels.index(then["to"]) if do == "jump" else position + 1
        return result

    def call(
        self, task: Any, scope: Scope, label: str, path: Any, visit: int, attempt: int
    ) -> tuple[Answer, Any]:
        try:
            seen = self.render(task["v"], scope)
        except Undefined:
            return ("error", "template.undefined"), None
        except Broken:
            return ("error", "template.error"), None
        return self.script(label, path, visit, attempt), seen

    def early_skip(self, rules: Any, scope: Scope) -> Any:
        """C-18: the first match of the rules that do not read the outcome."""
        if not any(body(rule)["do"] == "skip" for rule in rules or []):
            return None
        needy = ["outcome" in str(rule.get("when", "")) for rule in rules]
        for rule, needs in zip(rules, needy, strict=True):
            if "when" in rule and not needs and self.holds(rule["when"], scope):
                return rule["then"] if rule["then"]["do"] == "skip" else None
        for rule in rules:
            if "else" in rule and body(rule)["do"] == "skip" and not any(needy):
                return body(rule)
        return None

    def judge(self, rules: Any, scope: Scope, failed: bool) -> Any:
        if rules is None:
            return {"do": "fail" if failed else "continue"}
        for rule in rules:
            if "when" in rule and self.holds(rule["when"], scope):
                return rule["then"]
        for rule in rules:
            if "else" in rule:
                return rule["else"]["then"]
        return {"do": "continue"}

    def act(
        self,
        step: Any,
        path: Any,
        label: str,
        visits: dict[str, int],
        attempt: int,
        seen: Any,
        do: str,
        delay: float = 0.0,
    ) -> None:
        name = step["step"]
        self.trace.actions.append(
            Action(name, path, label, visits[label], attempt, seen, do, delay)
        )

    # -- templates ---------------------------------------------------------------

    def scope(self, args: Any, **names: Any) -> Scope:
        scope = {"workload": self.workload, "ctx": self.trace.ctx, "args": args}
        scope.update({k: v for k, v in names.items() if k == "_prev" or v is not None})
        return scope

    def holds(self, when: Any, scope: Scope) -> bool:
        return bool(self.meaning[when](scope) if isinstance(when, str) else when)

    def render(self, value: Any, scope: Scope) -> Any:
        if isinstance(value, str):
            return self.meaning[value](scope) if value in self.meaning else value
        if isinstance(value, dict):
            return {key: self.render(inner, scope) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.render(inner, scope) for inner in value]
        return value

    def spend(self) -> None:
        self.work += 1
        if self.work > self.bound:
            raise TooMuch


def tasks_of(step: Any) -> Iterator[tuple[str, Any]]:
    for entry in step["tool"]:
        yield from entry.items()


def body(rule: Any) -> Any:
    return rule["then"] if "then" in rule else rule["else"]["then"]


def wait(then: Any, rerun: int) -> float:
    base = float(then.get("delay", 0))
    kind = then.get("backoff", "none")
    if kind == "linear":
        return base * rerun
    return base * 2.0 ** (rerun - 1) if kind == "exponential" else base


def patched(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    for key, value in patch.items():
        head, _, rest = key.partition(".")
        if rest:
            inner = base.get(head)
            value = patched(inner if isinstance(inner, dict) else {}, {rest: value})
        base = {**base, head: value}
    return base


def boundary(name: str, status: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "status": status, "payload": payload}


def show(value: Any) -> str:
    """A value as text that tells 1 from true and ignores the order of keys."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key}: {show(value[key])}" for key in sorted(value))
        return "{" + inside + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(show, value)) + "]"
    return repr(value)
