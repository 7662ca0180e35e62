"""Kinds of large values and of the log."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

REFERENCES = {
    "ref.gone": ErrorKind(
        "A large value is not in its store any more.",
        "Restore the store, or run again.",
    ),
    "ref.corrupt": ErrorKind(
        "A large value is not what was stored.",
        "Restore the store from a copy; check the disk.",
    ),
    "ref.not_found": ErrorKind(
        "There is no such result, and no log names one.",
        "`noetl result ls ID` lists those of an execution.",
    ),
    "ref.range": ErrorKind(
        "A range of bytes ends before it begins, or behind the end.",
        "Ask for `KEY:FIRST-LAST` within the size, counted from 0.",
    ),
    "ref.format": ErrorKind(
        "A template reads a stored file that is no JSON, such as Parquet.",
        "Read it as a table of a `duckdb` task, or get it with `noetl result get`.",
    ),
    "ref.not_owner": ErrorKind(
        "A reference (`store: noetl`) leads to what another execution has stored, or "
        "was not made by NoETL: it came with a request, a signal, a delivery, a report "
        "or the result of a tool.",
        "Send the value itself, or give the member `store` another name or value.",
    ),
}
STORE = {
    "store.locked": ErrorKind(
        "Another process writes this log.", "Wait for it, or use another `NOETL_HOME`."
    ),
    "store.busy": ErrorKind(
        "Another program keeps the database locked.", "End that program."
    ),
    "store.full": ErrorKind("The disk, or the quota, is full.", "Make room."),
    "store.io": ErrorKind("The disk reports an error.", "Check disk and mount."),
    "store.denied": ErrorKind(
        "A store elsewhere refuses the credential, or there is none.",
        "Set the variables that its client reads; check the rights to read, write, "
        "list and delete.",
    ),
    "store.unlisted": ErrorKind(
        "A plug-in keeps the results, and cannot say which it has.",
        "Clean them up with the means of that store.",
    ),
    "store.unreachable": ErrorKind(
        "A store elsewhere, or the database server, does not answer. If a tool needs "
        "it, the call may be tried again.",
        "Check its address and the network.",
        None,
    ),
    "store.readonly": ErrorKind(
        "The log cannot be written.", "Check the rights of its files and folder."
    ),
    "store.network_fs": ErrorKind(
        "The log would be on a network file system, whose locks do not hold.",
        "Put `NOETL_HOME` on a local disk.",
    ),
    "store.missing": ErrorKind(
        "There is no such log, or no such execution in it.", "`noetl list` shows them."
    ),
    "store.corrupt": ErrorKind(
        "The file is no log of NoETL, or is damaged.", "Restore it from a copy."
    ),
    "store.migration": ErrorKind(
        "A migration stopped half-way.", "Restore it from a copy."
    ),
    "store.version": ErrorKind(
        "The log is of another version than this NoETL can read.",
        "Install the newer version; the next `noetl run` brings up an older log.",
    ),
    "store.closed": ErrorKind(
        "The store was closed already.", "A defect: report it with the log."
    ),
    "store.conflict": ErrorKind(
        "Somebody appended first; the decision is made again.", "Nothing."
    ),
    "store.sequence": ErrorKind(
        "Events are not numbered one after the other.",
        "A defect: report it with the log.",
    ),
    "store.encoding": ErrorKind(
        "An event cannot be written down.", "A defect: report it with the log."
    ),
    "store.foreign": ErrorKind(
        "An execution planned work for another one.",
        "A defect: report it with the log.",
    ),
    "store.error": ErrorKind("The database reports something else.", "Read it."),
    "log.hash_mismatch": ErrorKind(
        "The log was changed after it was written.",
        "Restore it from a copy; find out who changed it.",
    ),
}
