"""Plan of a step: labels for all parts of its pipeline."""

from __future__ import annotations

import msgspec

from noetl.dialects.legacy import calls
from noetl.dialects.legacy.calls import Unit
from noetl.dialects.legacy.case import (
    Branch,
    Call,
    Wish,
    make_call,
    read_call,
    read_case,
)
from noetl.dialects.legacy.pipeline import MARK, Pipeline
from noetl.dialects.legacy.retries import read_retry
from noetl.dialects.legacy.routers import Wished
from noetl.dialects.legacy.settings import Settings
from noetl.dialects.legacy.symbols import Book, Spelling
from noetl.dsl.diagnostics import Report
from noetl.dsl.node import Location
from noetl.dsl.normalize import pipeline_entries

ENTRY = "entry"


class RuledTask(msgspec.Struct):
    """Task of the entry list that has its own rules."""

    label: str
    body: Location

    @property
    def first(self) -> str:
        return self.label


class Plan:
    """Parts of one step, which refer to each other by labels.

    ``call`` is the entry tool, ``case`` the choice, ``polled`` the first target of a
    failed entry tool that polls, ``route`` the task that settles routing requests at
    the end of an epoch.
    """

    def __init__(
        self, step: Location, name: str, book: Book, settings: Settings, report: Report
    ) -> None:
        self.step, self.name, self.book = step, name, book
        self.settings, self.report = settings, report
        self.pipeline = Pipeline()
        retry = step.get("retry")
        self.retry = None if retry is None else read_retry(retry, report)
        self.branches: list[Branch] = []
        if "case" in step:
            order = settings.branch_order == "priority"
            self.branches = read_case(step["case"], order, report)
        self.case = self.pipeline.label(f"step{MARK}case") if self.branches else None
        self.call: str | None = None
        self.polled: str | None = None
        self.units: dict[str, list[Unit | Wished]] = {}
        self.spelling = Spelling(book, name, settings.element)
        self.wished: list[Wished] = []
        self.route: str | None = None
        self.entry = self._plan_entry()
        for branch in self.branches:
            self._plan_chain(branch)
        self._plan_route()
        self._name_tasks()

    def calls(self) -> list[Unit]:
        found = [unit for chain in self.units.values() for unit in chain]
        return [unit for unit in found if isinstance(unit, Unit)]

    def _plan_entry(self) -> list[Unit | RuledTask]:
        """Return the entry tool and its sink, or the tasks of a list."""
        tool = self.step.get("tool")
        if tool is None:
            return []
        planned: list[Unit | RuledTask] = []
        if tool.node.is_mapping and "kind" in tool:
            call = make_call("call", tool, [tool, self.step], self.report)
            if "retry" in self.step and self._inherits(tool):
                call.retry = None  # calls inherit the step's retry
            planned += self._plan_call(call)
        else:
            for entry in pipeline_entries(tool, self.report):
                planned += self._plan_task(entry.label, entry.body)
        self.units[ENTRY] = [unit for unit in planned if isinstance(unit, Unit)]
        if self.call is not None and self.case is not None:
            polled = [unit for unit in planned if isinstance(unit, Unit) and unit.wait]
            if polled and polled[-1].label == self.call:
                self.polled = self.pipeline.label(f"call{MARK}timeout")
        return planned

    def _inherits(self, tool: Location) -> bool:
        """Return whether the tool has no retry settings of its own."""
        spec = tool.get("spec")
        return "retry" not in tool and (spec is None or "retry" not in spec)

    def _plan_call(self, call: Call) -> list[Unit | RuledTask]:
        unit = calls.plan(self.pipeline, call)
        self.call = unit.label
        planned: list[Unit | RuledTask] = [unit]
        if call.sink is not None:
            sink = read_call("sink", call.sink, self.report)
            if sink is not None:
                planned.append(calls.plan(self.pipeline, sink))
        return planned

    def _plan_task(self, label: str, body: Location) -> list[Unit | RuledTask]:
        """Keep a task with a policy; give one without it the dialect's rules."""
        spec = body.get("spec")
        if spec is not None and "policy" in spec:
            self.call = self.pipeline.label(label)
            return [RuledTask(self.call, body)]
        return self._plan_call(make_call(label, body, [body], self.report))

    def _plan_chain(self, branch: Branch) -> None:
        planned: list[Unit | Wished] = []
        for action in branch.actions:
            if isinstance(action, Wish):
                if self.settings.looped:
                    self._refuse_wish(action)
                    continue
                label = self.pipeline.label(f"{branch.name}{MARK}next")
                wished = Wished(
                    action, label, branch.name, self.settings.policy(action)
                )
                planned.append(wished)
                self.wished.append(wished)
                if wished.policy != "defer" and action is not branch.actions[-1]:
                    self._warn_unreached(
                        branch.actions[branch.actions.index(action) + 1]
                    )
                    break
            else:
                planned.append(calls.plan(self.pipeline, action))
        self.units[branch.name] = planned

    def _refuse_wish(self, wish: Wish) -> None:
        message = "'next' in the case of a step with a loop: the step routes only once"
        hint = "route by a 'next' beside 'case', or loop in another step"
        self.report.error("LEG-NEXT-01", "looped-next", wish.at, message, hint)

    def _warn_unreached(self, action: Call | Wish) -> None:
        at = action.at if isinstance(action, Wish) else action.tool
        message = "this is never reached: the 'next' before it ends the chain"
        hint = "move it before 'next', or give that one policy: defer"
        self.report.warn("LEG-NEXT-02", "after-next", at, message, hint)

    def _plan_route(self) -> None:
        settled_at_once = all(
            wished.policy == "end_step" and not wished.wish.delay
            for wished in self.wished
        )
        if self.wished and not settled_at_once:
            self.route = self.pipeline.label(f"step{MARK}route")

    def _name_tasks(self) -> None:
        """Define ``<task>`` and ``<step>`` inside this step."""
        names: dict[str, list[str]] = {}
        for unit in self.calls():
            names.setdefault(unit.call.name, []).append(unit.label)
        spelled = {
            name: f"({' or '.join(f'_outcomes.{label}' for label in labels)})"
            if labels[1:]
            else f"_outcomes.{labels[0]}"
            for name, labels in names.items()
            if name != "call"
        }
        if self.call is not None:
            spelled[self.name] = f"{{'data': _outcomes.{self.call}.result}}"
        self.spelling = self.spelling.with_names(**spelled)
