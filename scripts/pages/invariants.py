"""The page of all invariants, from the table that `noetl verify` checks by."""

from __future__ import annotations

from noetl.engine.invariants.catalog import INVARIANTS
from pages.markdown import table

HOW = {
    "log": "the log, event by event",
    "records": "the rows beside the log, against it",
    "store": "all rows of the store",
    "tests": "the tests of NoETL only",
}

INTRO = """\
These statements hold of every execution, whatever was killed, lost or repeated.
`noetl verify --execution ID` checks those that a store can show, and `--execution all`
checks every execution; [Verify a store](../how-to/troubleshooting.md#verify-a-store)
explains its output. The tests of NoETL check all of them.

Three passes read a log: the hash chain of its batches, then the events in order, with
memory of what is open only, then the rows of the execution. These are its line in
listings, commands with leases, timers, snapshot, tallies, and its slot of a concurrency
key. Stored values are read, and compared with size and SHA-256 of their references."""


def invariants() -> str:
    rows = (
        (
            f"`{name}`",
            each.sentence,
            "; ".join(HOW[how] for how in each.how),
            ""
            if each.how == ("tests",)
            else f"{each.cure[:1].upper()}{each.cure[1:]}.",
        )
        for name, each in INVARIANTS.items()
    )
    head = "| id | holds | is checked by reading | if it does not hold |"
    return f"{INTRO}\n\n{table(head, rows)}"
