"""Names that NoETL uses in NATS, and the permissions of its servers.

This is the only list of permissions: ``noetl up`` writes it, and ``deploy/nats.conf``
repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

USER = "noetl"
"""User of servers. Workers, tasks and the command line have none."""

WAKEUPS = "noetl.cmd"
SESSIONS = "noetl_sessions"
SESSION_KEYS = "noetl.sessions"
RESULTS = "noetl-results"
"""Bucket of results, unless a playbook names another one."""

KEYS_STREAM, OBJECTS_STREAM = "KV_", "OBJ_"
"""Prefixes that NATS adds to the name of a bucket to name its stream."""

_API = "$JS.API"


class Permissions(NamedTuple):
    """Allowed subjects; every other subject is denied."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def server_permissions(buckets: Iterable[str] = ()) -> Permissions:
    """Allow wake-ups, sessions, and results in NoETL's bucket and in ``buckets``.

    No stream can be deleted. Streams of results can be purged, which is how NATS
    removes an object.
    """
    publish = [f"{WAKEUPS}.*", f"{_API}.STREAM.LIST", f"{_API}.STREAM.NAMES"]
    keys = KEYS_STREAM + SESSIONS
    publish += [f"$KV.{SESSIONS}.{SESSION_KEYS}.>", f"{_API}.STREAM.UPDATE.{keys}"]
    publish += [f"{_API}.DIRECT.GET.{keys}.>"]  # if the operator's stream allows it
    publish += _on_stream(keys)
    for bucket in sorted({RESULTS, *buckets}):
        objects = OBJECTS_STREAM + bucket
        publish += [f"$O.{bucket}.>", f"{_API}.STREAM.PURGE.{objects}"]
        publish += _on_stream(objects)
    return Permissions(tuple(publish), (f"{WAKEUPS}.*", "_INBOX.>"))


def _on_stream(stream: str) -> Iterator[str]:
    """Yield the subjects to create, inspect and read a stream."""
    yield f"{_API}.STREAM.CREATE.{stream}"
    yield f"{_API}.STREAM.INFO.{stream}"
    yield f"{_API}.STREAM.MSG.GET.{stream}"
    yield f"{_API}.CONSUMER.CREATE.{stream}"
    yield f"{_API}.CONSUMER.INFO.{stream}.*"
    yield f"$JS.FC.{stream}.>"


def describe_user(password: str, permissions: Permissions) -> str:
    """Return a user's block for a NATS configuration; ``password`` is not quoted."""
    lines = [f"    user: {USER}", f"    password: {password}", "    permissions: {"]
    for verb, subjects in permissions._asdict().items():
        lines += [f"      {verb}: ["]
        lines += [f"        {json.dumps(subject)}" for subject in subjects]
        lines += ["      ]"]
    return "\n".join(["  {", *lines, "    }", "  }"])
