"""The invariants: what holds of every execution, how it is checked, how it is cured.

The reference page is made from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

How = Literal["log", "records", "store", "tests"]
"""``log``: event by event. ``records``: the rows beside a log, against it. ``store``:
all rows of a store. ``tests``: no store can show it, so only the tests check it."""


class Invariant(NamedTuple):
    """One invariant: what holds, how ``noetl verify`` checks it, and what to do if it
    does not hold."""

    sentence: str
    how: tuple[How, ...]
    cure: str


_RESTORE = "restore the store from a backup; do not resume the execution"
_REPORT = "keep a copy of the store and report it: the log itself is wrong"
_REFOLD = (
    "stop what uses the store, and delete the row of the snapshot or tally: it is made "
    "again from the log; the next event writes a line of a listing again"
)
_DELETE = "stop what uses the store, and delete the row: the log does not need it"
_ROWS = "noetl pause ID, then noetl resume ID: that makes its lost rows again"
_FORK = (
    "continue in a fork of its last event, noetl fork ID --at SEQ, and cancel this one"
)

_LOG: tuple[How, ...] = ("log",)
_RECORDS: tuple[How, ...] = ("records",)
_TESTS: tuple[How, ...] = ("tests",)
_NONE = "none: noetl verify does not find it"

INVARIANTS: Mapping[str, Invariant] = {
    "I-01": Invariant(
        "An accepted request is never lost: it is the first event of its log.",
        _LOG,
        _RESTORE,
    ),
    "I-02": Invariant(
        "One idempotency key, or one repetition of it (S-77), has one execution.",
        ("store",),
        "cancel one of them: noetl cancel ID",
    ),
    "I-03": Invariant(
        "An accepted report is never lost; no event is visible before its commit.",
        _TESTS,
        _NONE,
    ),
    "I-04": Invariant(
        "The log has no gap, no duplicate and no change; the end on record is its end.",
        ("log", "records", "store"),
        _RESTORE,
    ),
    "I-05": Invariant(
        "An execution runs the playbook that it was accepted with: its text is stored.",
        ("records",),
        "restore the folder or table of results from a backup",
    ),
    "I-06": Invariant(
        "A failed write is never reported as stored, nor as not stored.", _TESTS, _NONE
    ),
    "I-07": Invariant(
        "Snapshots, tallies and listings say what the log adds up to.",
        ("log", "records"),
        _REFOLD,
    ),
    "I-08": Invariant(
        "A replay evaluates nothing: every decision is in its event.", _TESTS, _NONE
    ),
    "I-09": Invariant("The same input gives the same events.", _TESTS, _NONE),
    "I-10": Invariant(
        "A log of any released version replays to the same state.", _TESTS, _NONE
    ),
    "I-11": Invariant(
        "A token is made once, and ends once: admitted, denied or discarded.",
        _LOG,
        _REPORT,
    ),
    "I-12": Invariant(
        "A boundary is routed once, by the arcs of the playbook; an exclusive router "
        "fires one arc at most.",
        _LOG,
        _REPORT,
    ),
    "I-13": Invariant(
        "Workers record only what happened in their task; the server decides.",
        _LOG,
        _REPORT,
    ),
    "I-14": Invariant(
        "An execution finishes once, last, when nothing is left to do.", _LOG, _REPORT
    ),
    "I-15": Invariant(
        "A step run, and an iteration, is begun once and ends once.", _LOG, _REPORT
    ),
    "I-16": Invariant(
        "A command has one owner at most; its epoch grows; what has ended has none.",
        _RECORDS,
        _DELETE,
    ),
    "I-17": Invariant(
        "The start of an attempt is recorded before its outcome.", _LOG, _REPORT
    ),
    "I-18": Invariant(
        "Everything that is open has a command, so that a worker can continue it.",
        _RECORDS,
        _ROWS,
    ),
    "I-19": Invariant(
        "A worker that cannot renew its lease stops its tool.", _TESTS, _NONE
    ),
    "I-20": Invariant(
        "A call that loses its owner again and again ends as an error.", _TESTS, _NONE
    ),
    "I-21": Invariant(
        "A concurrency key has no more holders than slots, and those of the logs.",
        ("records", "store"),
        "cancel the surplus holder: noetl cancel ID",
    ),
    "I-22": Invariant(
        "A collection is fixed once; its iterations begin once, in their order.",
        _LOG,
        _REPORT,
    ),
    "I-23": Invariant(
        "No more iterations are open than max_in_flight; one, if sequential.",
        _LOG,
        _REPORT,
    ),
    "I-24": Invariant(
        "The end of a loop is the sum of its iterations, in the order of the items.",
        _LOG,
        _REPORT,
    ),
    "I-25": Invariant("An iteration sees no other iteration's iter.", _TESTS, _NONE),
    "I-26": Invariant(
        "A call has one recorded outcome; status, directive and result agree with it.",
        _LOG,
        _REPORT,
    ),
    "I-27": Invariant(
        "Attempts count from one; a repeated start is recorded as in doubt.",
        _LOG,
        _REPORT,
    ),
    "I-28": Invariant(
        "Nothing fires before its time, and there is a timer for each time.",
        ("log", "records"),
        _ROWS,
    ),
    "I-29": Invariant(
        "A jump stays in its pipeline, and a pipeline within its limit of tasks.",
        _LOG,
        _REPORT,
    ),
    "I-30": Invariant(
        "A patch of ctx is applied once; parallel iterations do not write one key "
        "twice.",
        _LOG,
        _REPORT,
    ),
    "I-31": Invariant("The workload is set once.", _LOG, _REPORT),
    "I-32": Invariant("Nothing begins after a cancellation.", _LOG, _REPORT),
    "I-33": Invariant("Nothing begins during a pause.", _LOG, _REPORT),
    "I-34": Invariant("A time-out fires once.", _LOG, _REPORT),
    "I-35": Invariant(
        "A payload has 64 KiB at most; a value that it refers to is stored, and has "
        "the size and SHA-256 of its reference.",
        ("log", "records"),
        "restore the folder or table of results from a backup",
    ),
    "I-36": Invariant(
        "Only its execution and that one's relatives read a stored value.",
        _TESTS,
        _NONE,
    ),
    "I-37": Invariant("Executions do not read or change each other.", _TESTS, _NONE),
    "I-38": Invariant(
        "An execution that cannot be decided is set aside, and stops no other one.",
        _TESTS,
        _NONE,
    ),
    "I-39": Invariant("A large execution does not starve others.", _TESTS, _NONE),
    "I-40": Invariant("No secret is recorded or shown.", _TESTS, _NONE),
    "I-41": Invariant("Every call needs its permission.", _TESTS, _NONE),
    "I-42": Invariant("No input makes a server run code.", _TESTS, _NONE),
    "I-43": Invariant("What one input may cost is bounded.", _TESTS, _NONE),
    "I-44": Invariant("Every change names its account.", _TESTS, _NONE),
    "I-45": Invariant(
        "An open execution comes to its end once faults stop.",
        _TESTS,
        "none: servers look for open executions that nothing can continue, log "
        "invariant.stalled, and make their lost rows again, or set them aside",
    ),
    "I-46": Invariant("Executions complete without NATS.", _TESTS, _NONE),
    "I-47": Invariant(
        "Without PostgreSQL nothing is acknowledged, and nothing is lost.",
        _TESTS,
        _NONE,
    ),
    "I-48": Invariant(
        "A retried loop counts its kept iterations as done, and begins none of them "
        "again (S-76).",
        _LOG,
        _REPORT,
    ),
    "I-49": Invariant(
        "A wait gets one answer, and one pipeline takes a signal (S-68).",
        _LOG,
        _REPORT,
    ),
    "I-50": Invariant(
        "A pipeline that waits has no lease, and is offered at its time (S-68, S-78).",
        _RECORDS,
        _FORK,
    ),
    "I-51": Invariant(
        "A batch of the log decodes to as many events as it says, after the batch "
        "before it.",
        ("log",),
        _RESTORE,
    ),
    "I-52": Invariant(
        "Every command and timer belongs to a stored execution.",
        ("store",),
        _DELETE,
    ),
}


def cure_of(invariant: str) -> str:
    """Return what to do where an invariant does not hold."""
    found = INVARIANTS.get(invariant)
    return found.cure if found is not None else _REPORT
