"""Step of the dialect: entry tool and case become one pipeline."""

from __future__ import annotations

import json

from noetl.dialects.legacy import calls, routers
from noetl.dialects.legacy.calls import Failing, Unit
from noetl.dialects.legacy.case import ELSE, Branch, Call
from noetl.dialects.legacy.labels import Plan, RuledTask
from noetl.dialects.legacy.nodes import changed, make, texts_of
from noetl.dialects.legacy.pipeline import END, MARK, Rule
from noetl.dialects.legacy.retries import DEFAULT, Retry, seconds_of
from noetl.dialects.legacy.routers import Wished
from noetl.dialects.legacy.symbols import Spelling
from noetl.dialects.template_rewrite import names_in
from noetl.dsl.node import Node
from noetl.types import JSON


class Front:
    """Writes the tasks of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pipeline, self.settings = plan.pipeline, plan.settings
        self.step, self.branches, self.units = plan.step, plan.branches, plan.units
        self.case, self.call, self.polled = plan.case, plan.call, plan.polled
        self.route, self.retry, self.spelling = plan.route, plan.retry, plan.spelling

    # -- the whole step ----------------------------------------------------------

    def tool(self) -> Node | None:
        """Return the pipeline; None if there is nothing to run."""
        self._build_entry(self.plan.entry)
        if self.case is not None:
            self._build_case(self.case)
        for branch in self.branches:
            self._build_chain(branch)
        for unit in self.plan.calls():
            calls.build_wait(self.pipeline, unit)
        if self.route is not None:
            self.pipeline.tasks += routers.build_route(
                self.pipeline,
                self.route,
                self.plan.wished,
                self.case if self.settings.waits else END,
                self.step.node,
            )
        return self.pipeline.nodes(self.step.node) if self.pipeline.tasks else None

    # -- the entry tool ----------------------------------------------------------

    def _build_entry(self, entry: list[Unit | RuledTask]) -> None:
        following = [*[each.first for each in entry[1:]], self.case]
        for unit, target in zip(entry, following, strict=False):
            if isinstance(unit, RuledTask):
                body = self.spelling.tool(unit.body.node)
                self.pipeline.add(unit.label, body, unit.body.node)
                continue
            failing = self._failing(target)
            if self.case is not None and unit.label == self.call:
                # C-39: the failure is an event, for which the case is evaluated
                failing = Failing([("", self.polled or self.case)])
            calls.build(
                self.pipeline,
                unit,
                self.spelling,
                unit.call.retry or self._default_retry(),
                failing,
                [Rule(None, {"go": target})],
                self._patch(unit),
            )
        if self.polled is not None:
            self._build_polled(self.call or "", self.polled)

    def _build_polled(self, call: str, label: str) -> None:
        """Add the task for a failed entry tool, or for polls that reached their
        limit."""
        message = f"step '{self.plan.name}' was polled until its limit"
        vain = f"{{'kind': 'poll.timeout', 'message': {json.dumps(message)}}}"
        note = {"error": f"{{{{ _outcomes.{call}.error or {vain} }}}}"}
        body: dict[str, JSON] = {"kind": "noop", "note": note}
        self.pipeline.add(label, body, self.step.node, Rule(None, {"go": self.case}))

    def _default_retry(self) -> Retry | None:
        if self.retry is not None and self.retry.scope != "chain":
            return self.retry
        return DEFAULT if self.settings.on_error == "retry" else None

    def _failing(self, following: str | None) -> Failing:
        if self.settings.on_error == "ignore":
            return Failing([("", following)])
        return Failing([])

    def _patch(self, unit: Unit) -> dict[str, JSON]:
        """Return the values that later steps may read; a loop passes results by its
        arcs."""
        patch: dict[str, JSON] = {}
        if not self.settings.looped:
            if self.plan.book.reads_data(self.plan.name) and self.call in (
                None,
                unit.label,
            ):
                patch[self.plan.name] = {"data": "{{ outcome.result }}"}
            name = unit.call.name
            if name != "call" and self.plan.book.reads_result(name, self.plan.name):
                patch[name] = {"result": "{{ outcome.result }}"}
        spelling = self.spelling.with_names(result="outcome.result")
        for name, node in unit.call.vars.items():
            patch[f"vars.{name}"] = spelling.tree(node)
        return patch

    # -- the case ----------------------------------------------------------------

    def _build_case(self, label: str) -> None:
        settings = self.settings
        result = "none" if self.call is None else f"_outcomes.{self.call}.result"
        asking = self.spelling.with_names(result=result)
        body: dict[str, JSON] = {
            "kind": "choose",
            "when": {
                branch.name: asking.tree(branch.when)
                for branch in self.branches
                if branch.when is not None
            },
            "mode": settings.case_mode,
        }
        if any(branch.when is None for branch in self.branches):
            body["otherwise"] = ELSE
        if settings.waits:
            body["wait"] = True
            body["timers"] = settings.timers
        if self.call is not None:
            body["event"] = self._trigger(self.call)
            body["result"] = f"{{{{ {result} | default(none) }}}}"
        elif not settings.waits:
            body["event"] = {"name": "step.started", "data": {}}
        rules = [
            Rule(
                f"'{branch.name}' in outcome.choose.matched",
                {"go": self._first(branch)},
            )
            for branch in self.branches
        ]
        rules.insert(0, Rule("outcome.status == 'error'", {"do": "fail"}))
        if self.call is not None and settings.on_error != "ignore":
            failed = f"_outcomes.{self.call}.status == 'error'"
            error = f"{{{{ _outcomes.{self.call}.error }}}}"
            if self.polled is not None:
                failed = f"_outcomes.{self.polled}"
                error = f"{{{{ _outcomes.{self.polled}.noop.note.error }}}}"
            rules.append(Rule(failed, {"do": "fail", "error": error}))
        rules.append(Rule(None, {"go": END}))
        self.pipeline.add(label, body, self.step["case"].node, *rules)

    def _trigger(self, call: str) -> dict[str, JSON]:
        failed = f"_outcomes.{call}.status == 'error'"
        error = f"_outcomes.{call}.error"
        if self.polled is not None:
            failed = f"_outcomes.{self.polled}"
            error = f"_outcomes.{self.polled}.noop.note.error"
        name = f"{{{{ 'call.error' if {failed} else 'call.done' }}}}"
        data: dict[str, JSON] = {"error": f"{{{{ {error} | default(none) }}}}"}
        if self._reads_event_data():
            data["result"] = f"{{{{ _outcomes.{call}.result | default(none) }}}}"
        return {"name": name, "event_type": name, "data": data, "payload": data}

    def _reads_event_data(self) -> bool:
        for text in texts_of(self.step["case"].node):
            for name in names_in(text):
                if name.text == "event" and name.attributes[:1] in (
                    ("data",),
                    ("payload",),
                    (),
                ):
                    return True
        return False

    # -- the chains --------------------------------------------------------------

    def _first(self, branch: Branch) -> str | None:
        chain = self.units[branch.name]
        if self._chain_retry(branch) is not None:
            return f"{branch.name}{MARK}try"
        return chain[0].first if chain else self._epoch_end()

    def _epoch_end(self) -> str | None:
        """Return the target after every selected chain has run."""
        if self.route is not None:
            return self.route
        return self.case if self.settings.waits else END

    def _chain_retry(self, branch: Branch) -> Retry | None:
        for retry in (branch.retry, self.retry):
            if retry is not None:
                chained = retry.scope == "chain" and self.units[branch.name]
                return retry if chained else None
        return None

    def _tool_retry(self, branch: Branch, call: Call) -> Retry | None:
        """Return the retry of the call, the chain or the step, in order
        (LEG-RETRY-05)."""
        if call.retry is not None:
            return call.retry
        if self._chain_retry(branch) is not None:
            return None
        return branch.retry or self._default_retry()

    def _after(self, branch: Branch) -> list[Rule]:
        """Return the targets after a chain: the next selected one, then the epoch's
        end."""
        rules: list[Rule] = []
        if self.settings.case_mode == "inclusive" and branch.when is not None:
            place = self.branches.index(branch) + 1
            for other in self.branches[place:]:
                if other.when is not None:
                    chosen = f"_outcomes.{self.case}.choose.matched"
                    selected = f"'{other.name}' in {chosen}"
                    rules.append(Rule(selected, {"go": self._first(other)}))
        return [*rules, Rule(None, {"go": self._epoch_end()})]

    def _build_chain(self, branch: Branch) -> None:
        chain = self.units[branch.name]
        again = self._build_try(branch)
        spelling = self.spelling.with_names(
            event=f"_outcomes.{self.case}.choose.event",
            result="none" if self.call is None else f"_outcomes.{self.call}.result",
        )
        before = self.call
        for place, unit in enumerate(chain):
            last = place + 1 == len(chain)
            after = (
                self._after(branch)
                if last
                else [Rule(None, {"go": chain[place + 1].first})]
            )
            if self.call is None and before is not None:
                spelling = spelling.with_names(result=f"_outcomes.{before}.result")
            if isinstance(unit, Wished):
                self._build_wish(unit, spelling, before, after, branch)
                continue
            failing = self._chain_failing(branch, again, after)
            calls.build(
                self.pipeline,
                unit,
                spelling,
                self._tool_retry(branch, unit.call),
                failing,
                after,
                self._patch(unit),
            )
            before = unit.label

    def _chain_failing(
        self, branch: Branch, again: str | None, after: list[Rule]
    ) -> Failing:
        answers: list[tuple[str, str | None]] = []
        retry = self._chain_retry(branch)
        if retry is not None:
            left = f"_outcomes.{branch.name}{MARK}try.result.n < {retry.attempts}"
            answers.append((left, again))
        if self.settings.on_error == "ignore":
            answers += [(rule.when or "", rule.then["go"]) for rule in after]
        return Failing(answers)

    def _build_try(self, branch: Branch) -> str | None:
        """Add the counter at the head of a chain that is repeated as a whole."""
        retry = self._chain_retry(branch)
        if retry is None:
            return None
        label = self.pipeline.label(f"{branch.name}{MARK}try")
        first = self.units[branch.name][0].first
        epoch = f"(_outcomes.{self.case}.visits)"
        same = f"(_outcomes.{label}.result.epoch | default(-1)) == {epoch}"
        count = f"{{{{ (_outcomes.{label}.result.n if {same} else 0) + 1 }}}}"
        delay = retry.wait(f"_outcomes.{label}.result.n")
        like = branch.at.node
        again = label
        if delay is not None:
            again = self.pipeline.label(f"{branch.name}{MARK}again")
            body: dict[str, JSON] = {"kind": "wait", "for": f"{{{{ {delay} }}}}"}
            self.pipeline.add(again, body, like, Rule(None, {"go": label}))
        counted = {"epoch": f"{{{{ {epoch} }}}}", "n": count}
        note = {"retry": {"scope": "chain", "branch": branch.name}}
        body = {"kind": "noop", "result": counted, "note": note}
        self.pipeline.add(label, body, like, Rule(None, {"go": first}))
        return again

    def _build_wish(
        self,
        wished: Wished,
        spelling: Spelling,
        before: str | None,
        after: list[Rule],
        branch: Branch,
    ) -> None:
        if wished.policy == "end_step":
            after = [Rule(None, {"go": self.route if self.route else END})]
        elif wished.policy == "break_chain":
            after = self._after(branch)
        result = "none" if before is None else f"_outcomes.{before}.result"
        body = routers.wish_body(wished, spelling, result)
        self.pipeline.add(wished.label, body, wished.wish.at.node, *after)


def spec_of(plan: Plan) -> Node | None:
    """Return ``step.spec`` without the keys of the dialect (C-30)."""
    spec = plan.step.get("spec")
    fresh: dict[str, JSON] = {}
    gone = plan.settings.gone
    if spec is not None and "timeout" in spec:
        gone = gone | {"timeout"}
        seconds = seconds_of(spec["timeout"], plan.report, 0.0)
        if not plan.settings.waits and seconds:
            fresh["deadline"] = make(spec["timeout"].node.value, spec["timeout"].node)
    if plan.settings.best_effort:
        policy = spec.get("policy") if spec is not None else None
        base = make({}, plan.step.node) if policy is None else policy.node
        fresh["policy"] = changed(base, {"failure": "best_effort"})
    if spec is None:
        return make(fresh, plan.step.node) if fresh else None
    return changed(spec.node, fresh, gone)
