"""The format of playbook tests: every key, every matcher, and how they are meant."""

from __future__ import annotations

from noetl.dsl.grammar.records import Field, Record
from noetl.testing import grammar
from noetl.testing.check_names import REAL
from noetl.testing.child_executions import MAX_BYTES, MAX_MOVES
from noetl.testing.matchers import MATCHERS
from noetl.testing.parse import STARTS_AT
from noetl.testing.replies import NAMES
from pages.markdown import table

INTRODUCTION = f"""
A playbook `orders.yaml` is tested by the file `orders.test.yaml` beside it, and
`noetl test` runs it. [Test a playbook](../how-to/test-a-playbook.md) leads through it,
and every example of the repository has tests. This page lists every key.

    tasks:                              # what the tools answer
      fetch.page: {{ result: {{ orders: [7] }} }}
    cases:
      - name: a busy server is asked again
        tasks:
          fetch.page: [{{ attempt: 1, http: 503 }}]
        expect:
          result: {{ orders: 1 }}
          calls: {{ fetch.page: 2 }}

No tool is called and no time passes: a case runs on the engine itself, with scripted
outcomes and a virtual clock that begins at {STARTS_AT}. Kinds that need no tool
({", ".join(f"`{kind}`" for kind in sorted(REAL))}) run as they are: a `wait` waits in
virtual time, and a `playbook` task runs the child that has this path in the playbook's
folder. Everything else must be answered; a call without an answer fails the case. So
does a run that makes {MAX_MOVES:,} moves or writes {MAX_BYTES >> 20} MiB of events:
it is taken for endless.
""".strip()

SECTIONS: dict[str, tuple[str, str]] = {
    "file": (
        "The file",
        "What stands at the top holds for all cases. A case's own `workload` is laid "
        "over the file's, its answers are asked before the file's, and its `signals` "
        "replace the file's.",
    ),
    "case": ("A case", ""),
    "answer": (
        "Answers",
        "`tasks` maps a task to an answer, or to a list of them: of a list, the first "
        "that is meant for the call answers it. A task is named `step.label`; the step "
        "alone will do if it has one task. An answer has exactly one of "
        + ", ".join(f"`{name}`" for name in grammar.OUTCOMES)
        + ". Templates in it read "
        + ", ".join(f"`{name}`" for name in sorted(NAMES))
        + ".",
    ),
    "outcome": ("Outcomes one after the other", "What an item of `answers` may be."),
    "error": ("Errors", "A text is the kind: `error: timeout`."),
    "http": (
        "HTTP answers",
        "A number is the status: `http: 503`. From 400 on it is the error that the "
        "http tool makes of it, unless `spec.ok_status` says otherwise.",
    ),
    "child": (
        "Child playbooks",
        "`playbooks` maps the path of a child to the answers of its tasks. A child can "
        "also be answered like any other task: then it does not run.",
    ),
    "signal": ("Signals", ""),
    "expect": (
        "Expectations",
        "All of them must hold, under every schedule. Values are compared exactly; "
        "[matchers](#matchers) say less.",
    ),
    "expected_error": (
        "Expected errors",
        "What is given is compared. A text is the kind: `error: timeout`; `null` means "
        "that there is none.",
    ),
    "calls": ("Expected calls", "A number, or a matcher, is the count."),
    "nth_call": ("Expected single calls", ""),
    "iterations": ("Expected iterations", ""),
    "expected_event": ("Expected events", "A text is the name."),
}

LIVES = """
A worker that `dies` leaves its pipeline to the next one, which begins the call again
(`in_doubt` in its `task.started`), or fails it with `worker.lost` if the task says
`on_in_doubt: fail`. The new worker has the log and nothing else: the state that is
folded from it must be the one that lived, or the case fails. A death happens once to
each attempt; then the next answer is asked. `before_call` counts as no call.

A `delay` longer than the task's `spec.timeout` ends in a `timeout` error after that
time. Step and execution deadlines end a call that is still under way.
""".strip()

SCHEDULES = """
Whenever several pipelines can move, the schedule says which one does: parallel
iterations, branches of an inclusive router, children. Calls overlap, too: another
pipeline may move between the begin of a call and its end. Schedule 0 takes them in the
order of the playbook; the others are drawn from their numbers, the same on every
machine. A case with `schedules: 50` runs under the schedules 0 to 49 and fails with the
first that fails; `noetl test --seed 17` runs schedule 17 alone. A case in which nothing
ever happens at the same time has one schedule, and runs once.
""".strip()

MATCHING = """
A mapping whose keys begin with `$` is a matcher, anywhere in an expected value. Several
keys must all match.
""".strip()


def playbook_tests() -> str:
    parts = [INTRODUCTION]
    for record in grammar.RECORDS:
        title, words = SECTIONS[record.name]
        parts += [f"## {title}", words, _keys(record)]
        if record.name == "http":
            parts += ["### Lost workers and slow calls", LIVES]
        if record.name == "case":
            parts += ["### Schedules", SCHEDULES]
    parts += ["## Matchers", MATCHING, _matchers()]
    return "\n\n".join(filter(None, parts))


def _keys(record: Record) -> str:
    rows = [
        (
            f"`{key}`" + (" (required)" if field.missing else ""),
            _value(field),
            field.doc.replace("(#answer)", "(#answers)"),
        )
        for key, field in record.fields.items()
    ]
    return table("| key | value | meaning |", rows)


def _value(field: Field) -> str:
    shape = field.shape
    name = shape.record or (shape.items.record if shape.items else None)
    if name is None:
        return str(shape)
    title = SECTIONS[name][0]
    return f"{shape}: [{title}](#{title.lower().replace(' ', '-')})"


def _matchers() -> str:
    rows = [
        (f"`{name}`", matcher.operand, matcher.doc, f"`{matcher.example}`")
        for name, matcher in MATCHERS.items()
    ]
    return table("| matcher | operand | matches | example |", rows)
