"""How much of a server its callers may keep busy: in all, and each of them."""

from __future__ import annotations

import resource

import msgspec

MiB = 1024 * 1024
MOST_DESCRIPTORS = 16_384
"""What the soft limit of open files is raised to, where the hard one permits it."""
RESERVED = 128
"""Descriptors for the store, logs, tools and connections to other services."""
MOST_CONNECTIONS = 4_096
LEAST_CONNECTIONS = 32


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Connections, answers that are held open, and bytes of bodies in memory.

    ``streams`` are streams of events and waits for an end; ``claims`` are workers that
    wait for work. The two together leave a quarter of the connections free for
    requests that are answered at once. Bodies of workers have a budget of their own.
    """

    connections: int
    connections_of_address: int
    streams: int
    streams_of_caller: int
    claims: int
    claims_of_caller: int
    body_bytes: int = 48 * MiB
    body_bytes_of_caller: int = 16 * MiB
    worker_body_bytes: int = 32 * MiB


def limits_for(descriptors: int) -> Limits:
    """What a process that may open so many files grants its callers."""
    room = (descriptors - RESERVED) * 3 // 4
    connections = min(MOST_CONNECTIONS, max(LEAST_CONNECTIONS, room))
    held = connections * 3 // 8
    return Limits(
        connections=connections,
        connections_of_address=connections // 2,
        streams=held,
        streams_of_caller=max(1, held // 4),
        claims=held,
        claims_of_caller=max(1, held // 2),
    )


def raise_descriptors() -> int:
    """Raise the soft limit of open files as far as is useful; the limit that holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
