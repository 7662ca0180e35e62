"""Settings of NATS: address, TLS and permitted buckets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from noetl.config.setting import (
    Setting,
    parse_file,
    parse_names,
    parse_number,
    parse_text,
)
from noetl.types import JSON

_BETWEEN = re.compile(r",(?= *(?:nats|tls)://| *[^,@]*(?:,|$))")
"""Commas between servers; a password may have one."""
_BUCKET = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _none() -> None:
    return None


def parse_nats(value: JSON, folder: Path) -> str | None:
    """Parse one address or several; each server gets the scheme of the first one, and
    the credential of the one before it unless it has its own."""
    scheme, _, text = parse_text(value, folder).partition("://")
    if scheme not in ("nats", "tls"):
        raise ValueError
    found, who = [], ""
    for part in _BETWEEN.split(text):
        server = part.strip().removeprefix(f"{scheme}://")
        if not server or "://" in server:
            raise ValueError
        own, at, place = server.rpartition("@")
        who = own + at or who
        found.append(f"{scheme}://{who}{place}")
    return ",".join(found)


def parse_replicas(value: JSON, _: Path) -> int:
    return parse_number(value, 1, 5)


def parse_buckets(value: JSON, _: Path) -> frozenset[str]:
    found = parse_names(value)
    if not all(map(_BUCKET.fullmatch, found)):
        raise ValueError
    return found


NATS = Setting(
    name="nats",
    words="the address of a NATS server: tls://user:password@host:4222, or nats://…; "
    "of a cluster several, separated by commas",
    doc="The NATS server that keeps sessions, and through which servers on one "
    "database notify each other of new work. Without it, the NATS that `noetl up` runs "
    "under this home; without that, sessions are in the home, and servers poll for "
    "work once a second. It also keeps results of playbooks that choose `nats_object`. "
    "With `tls://` no credential is sent to a NATS without TLS. Of several servers "
    "(`tls://user:password@a:4222,b:4222`) any that answers is used, and no other one. "
    "Workers need no NATS.",
    parse=parse_nats,
    default=_none,
    default_words="none",
    secret=True,
)
NATS_CA = Setting(
    name="nats_ca",
    words="a file",
    doc="Certificates in PEM of the authority that is trusted for a `nats` at "
    "`tls://`, instead of those that this machine trusts.",
    parse=parse_file,
    default=_none,
    default_words="none",
)
NATS_CERT = Setting(
    name="nats_cert",
    words="a file",
    doc="The client certificate in PEM for a `nats` at `tls://`, if the server "
    "requires one.",
    parse=parse_file,
    default=_none,
    default_words="none",
)
NATS_KEY = Setting(
    name="nats_key",
    words="a file",
    doc="The private key of `nats_cert`, in PEM, without a passphrase.",
    parse=parse_file,
    default=_none,
    default_words="none",
)
NATS_BUCKETS = Setting(
    name="nats_buckets",
    words="names separated by commas, of letters, digits, '_' and '-'",
    doc="Buckets that a playbook may choose for `nats_object` in the NATS of `noetl "
    "up`, besides `noetl-results`; `noetl up` reads it. A configuration file may have "
    "a list.",
    parse=parse_buckets,
    default=frozenset[str],
    default_words="none",
)
NATS_REPLICAS = Setting(
    name="nats_replicas",
    words="a whole number from 1 to 5",
    doc="The number of servers of a NATS cluster that keep each session, and each "
    "result in `nats_object`: with 3 of them one may fail. A bucket of results keeps "
    "the number that it was made with.",
    parse=parse_replicas,
    default=lambda: 1,
    default_words="1",
)
BROKER: tuple[Setting[Any], ...] = (
    NATS,
    NATS_REPLICAS,
    NATS_CA,
    NATS_CERT,
    NATS_KEY,
    NATS_BUCKETS,
)
