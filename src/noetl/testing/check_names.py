"""Checks that steps, tasks, children and events named in a test file exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from noetl.dsl.diagnostics import Diagnostic, Report, did_you_mean
from noetl.dsl.load import finished
from noetl.dsl.model import Playbook, Task
from noetl.dsl.node import Location, shorten
from noetl.engine.events import NAMES
from noetl.testing.grammar import CODE
from noetl.testing.model import Answers, Case, Reply, Suite

REAL = frozenset({"noop", "wait", "choose", "playbook"})
"""Kinds that need no tool: they run in a test as in a real run."""
ON_REQUEST = frozenset({"python"})
"""Kinds whose tool a test calls if an answer says so."""

FindPlaybook = Callable[[str], Playbook | None]
"""A child playbook by its path, in the latest version."""

TaskName = tuple[str, str]


def find_task(playbook: Playbook, name: str) -> TaskName | None:
    """Find ``step.label``, or ``step`` alone if it has one task."""
    step = playbook.steps.get(name)
    if step is not None and len(step.tasks) == 1:
        return name, step.tasks[0].label
    before, _, label = name.rpartition(".")
    step = playbook.steps.get(before)
    if step is not None and any(task.label == label for task in step.tasks):
        return before, label
    return None


def replies_by_task(
    playbook: Playbook, answers: Answers
) -> dict[TaskName, tuple[Reply, ...]]:
    """Return the replies by task; two spellings are one task."""
    found: dict[TaskName, tuple[Reply, ...]] = {}
    for name, replies in answers.replies.items():
        task = find_task(playbook, name)
        if task is not None:
            found[task] = found.get(task, ()) + replies
    return found


def missing_secrets(playbook: Playbook, given: Mapping[str, object]) -> list[str]:
    """Return the keychain entries for which a case has no value."""
    return [entry.name for entry in playbook.keychain if entry.name not in given]


def check_references(
    suite: Suite, playbook: Playbook, find: FindPlaybook
) -> tuple[Diagnostic, ...]:
    """Report every name of the suite that the playbook does not have."""
    checker = _Checker(playbook, Report())
    for case in suite.cases:
        checker.check_answers(case.answers)
        checker.check_expectations(case.expect)
        for path, answers in case.children.items():
            _check_child(path, answers, find, checker.report)
        checker.check_keychain(case, filter(None, map(find, case.children)))
    return tuple(finished(each) for each in checker.report)


def _check_child(
    path: str, answers: Answers, find: FindPlaybook, report: Report
) -> None:
    child = find(path)
    if child is not None:
        _Checker(child, report).check_answers(answers)
        return
    for places in answers.places.values():
        for place in places:
            message = f"unknown playbook path '{shorten(path)}'"
            hint = "playbooks are searched in the folder of the playbook under test"
            report.error(CODE, "playbook", place, message, hint)


class _Checker:
    """Reports names that one playbook does not have."""

    def __init__(self, playbook: Playbook, report: Report) -> None:
        self.report = report
        self._playbook = playbook
        self._tasks = {
            f"{step.name}.{task.label}": task
            for step in playbook.workflow
            for task in step.tasks
        }

    def check_answers(self, answers: Answers) -> None:
        for name, places in answers.places.items():
            for place in places:
                if self._check_task(place, name):
                    self._check_kind(name, answers.replies[name])

    def check_expectations(self, expect: Mapping[str, Location]) -> None:
        for key, at in expect.items():
            match key:
                case "calls":
                    for name in at.child_keys():
                        self._check_task(at.key(name), name)
                case "iterations":
                    for name in at.child_keys():
                        self._check_loop(at.key(name), name)
                case "never":
                    for place in at.children():
                        self._check_either(place, place.node.value)
                case "path":
                    for place in _texts(at):
                        self._check_step(place, place.node.value)
                case "events":
                    for place in at.children():
                        self._check_event(place)
                case _:
                    pass

    def check_keychain(self, case: Case, children: Iterable[Playbook]) -> None:
        for name in missing_secrets(self._playbook, case.keychain):
            message = f"case '{shorten(case.name)}' has no value for keychain entry "
            hint = f"add a made-up one: keychain: {{{name}: …}}"
            self.report.error(CODE, "keychain", case.at, f"{message}'{name}'", hint)
        known = {entry.name for entry in self._playbook.keychain}
        for child in children:
            known.update(entry.name for entry in child.keychain)
        for name in case.keychain:
            if name not in known:
                message = f"no keychain entry '{shorten(name)}' of the playbook"
                likely = did_you_mean(name, known)
                self.report.error(CODE, "keychain", case.at, message, likely)

    def _check_task(self, at: Location, name: str) -> bool:
        if find_task(self._playbook, name) is not None:
            return True
        step = self._playbook.steps.get(name)
        if step is not None:
            labels = ", ".join(f"{name}.{task.label}" for task in step.tasks)
            message = f"step '{name}' has {len(step.tasks)} tasks: which one is meant?"
            hint = f"name one: {labels}" if labels else "a step without tool calls none"
            self.report.error(CODE, "task-name", at, message, hint)
            return False
        message, likely = self._unknown_task(name)
        self.report.error(CODE, "task-name", at, message, likely)
        return False

    def _check_either(self, at: Location, name: str) -> None:
        """Check that a name is a step, with or without tasks, or a task."""
        steps = self._playbook.steps
        if name not in steps and find_task(self._playbook, name) is None:
            message = f"the playbook has no step and no task '{shorten(name)}'"
            hint = did_you_mean(name, {*steps, *self._tasks})
            self.report.error(CODE, "task-name", at, message, hint)

    def _unknown_task(self, name: str) -> tuple[str, str | None]:
        before, _, label = name.rpartition(".")
        step = self._playbook.steps.get(before)
        if step is not None:
            hint = did_you_mean(label, (task.label for task in step.tasks))
            return f"step '{before}' has no task '{shorten(label)}'", hint
        single = {each.name for each in self._playbook.workflow if len(each.tasks) == 1}
        hint = did_you_mean(name, {*self._tasks, *single})
        return f"the playbook has no task '{shorten(name)}'", hint

    def _check_kind(self, name: str, replies: tuple[Reply, ...]) -> None:
        step, label = find_task(self._playbook, name) or ("", "")
        task = self._tasks[f"{step}.{label}"]
        for reply in replies:
            for outcome in reply.outcomes:
                if outcome.how == "real" and task.kind not in REAL | ON_REQUEST:
                    message = f"kind {task.kind} cannot run in a test"
                    hint = f"kinds that can: {', '.join(sorted(REAL | ON_REQUEST))}"
                    self.report.error(CODE, "real", outcome.at, message, hint)
                elif outcome.how == "http" and task.kind != "http":
                    self._refuse_http(task, outcome.at)

    def _refuse_http(self, task: Task, at: Location) -> None:
        message = f"task '{task.label}' is of kind {task.kind}, not http"
        hint = "write result: … or error: {kind: …}"
        self.report.error(CODE, "http", at, message, hint)

    def _check_step(self, at: Location, name: str) -> bool:
        if name in self._playbook.steps:
            return True
        message = f"the playbook has no step '{shorten(name)}'"
        hint = did_you_mean(name, self._playbook.steps)
        self.report.error(CODE, "step-name", at, message, hint)
        return False

    def _check_loop(self, at: Location, name: str) -> None:
        if self._check_step(at, name) and self._playbook.steps[name].loop is None:
            message = f"step '{name}' has no loop, so it has no iterations"
            self.report.error(CODE, "step-name", at, message)

    def _check_event(self, at: Location) -> None:
        place = at.get("name") or at
        name = place.node.value
        if isinstance(name, str) and name not in NAMES:
            message = f"unknown event '{shorten(name)}'"
            self.report.error(
                CODE, "event-name", place, message, did_you_mean(name, NAMES)
            )


def _texts(at: Location) -> Iterator[Location]:
    """Yield the texts of a list, also inside a matcher of lists."""
    if isinstance(at.node.value, str):
        yield at
    for key in at.child_keys():
        if key in ("$unordered", "$contains", "$not", "$equals"):
            yield from _texts(at[key])
    if at.node.is_sequence:
        for child in at.children():
            yield from _texts(child)
