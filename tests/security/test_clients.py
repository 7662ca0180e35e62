"""Every place that opens a connection is known, with the reason why it may."""

from __future__ import annotations

import re
from pathlib import Path

import noetl

SOURCE = Path(noetl.__file__).parent
OPENING = re.compile(
    r"aiohttp\.(?:ClientSession|TCPConnector|UnixConnector)\("
    r"|asyncpg\.(?:connect|create_pool)\("
    r"|nats\.connect\(|\bclient\.connect\("
    r"|create_connection\(|create_unix_connection\(|open_connection\("
    r"|open_unix_connection\(|start_tls\(|sock_connect\("
    r"|urlopen\(|HTTPS?Connection\(|\burllib\.request\b|\burllib3\b"
    r"|^\s*(?:from|import) (?:httpx|requests|websockets|psycopg|smtplib|ftplib)\b"
    r"|boto3\.client\(|(?:S3|GCS|Azure)Store\b|\bsocket\.socket\(",
    re.MULTILINE,
)
KNOWN = {
    "adapters/network/web.py": "checks each address",
    "adapters/network/loops.py": "checks each address",
    "adapters/network/network.py": "binds a socket to ask which addresses are local",
    "adapters/tools/pg/dialer.py": "by a loop that checks each address",
    "adapters/tools/pg/pools.py": "by the dialer",
    "adapters/tools/classic/nats.py": "to a checked address",
    "adapters/blobs/nats.py": "the operator's setting nats",
    "adapters/nats/link.py": "the operator's setting nats",
    "adapters/postgres.py": "the operator's setting database",
    "adapters/sessions/importing.py": "an argument of the operator's command line",
    "adapters/servers/calls.py": "a worker's servers, by its own settings",
    "adapters/servers/transfers.py": "a worker's servers, by its own settings",
    "adapters/blobs/clouds.py": "results_url; a script's bucket on one's own machine",
    "adapters/secrets/clouds.py": "clouds, by entries that an operator declared",
    "adapters/processes/noetl_child/launch.py": "the launcher's own pair of sockets",
    "api/listening.py": "listens",
    "client.py": "a command's server, by its user's settings",
    "cluster/nats.py": "the NATS that noetl up starts",
    "cluster/parts.py": "looks for a free port",
    "cluster/roles.py": "the PostgreSQL that noetl up starts",
    "commands/checkup/machine.py": "a probe on loopback",
    "control.py": "the socket of a run, in the home",
}


def test_no_client_is_made_without_a_reason() -> None:
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if OPENING.search(file.read_text())
    }

    unknown = sorted(found - KNOWN.keys())
    assert not unknown, f"let these use adapters/network, or say why not: {unknown}"
    assert found == KNOWN.keys(), f"gone: {sorted(KNOWN.keys() - found)}"


def test_a_client_that_a_playbook_steers_gets_a_network() -> None:
    for file, sign in (
        ("adapters/tools/pg/dialer.py", "PinnedLoop(network)"),
        ("adapters/tools/pg/pools.py", "connect=dialer.connect"),
        ("adapters/tools/classic/sources.py", "Dialer("),
        ("adapters/tools/classic/nats.py", "await pin("),
        ("adapters/tools/web/client.py", "open_session("),
        ("adapters/secrets/web.py", "open_session("),
        ("adapters/oidc/web.py", "open_session("),
    ):
        assert sign in (SOURCE / file).read_text(), file
