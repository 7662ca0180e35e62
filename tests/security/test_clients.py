"""Every place that opens a connection is known, with the reason why it may."""

from __future__ import annotations

import re
from pathlib import Path

import noetl

SOURCE = Path(noetl.__file__).parent
OPENING = re.compile(
    r"aiohttp\.(?:ClientSession|TCPConnector|UnixConnector)\("
    r"|asyncpg\.(?:connect|create_pool)\("
    r"|nats\.connect\(|\b(?:client|super\(\))\.connect\("
    r"|create_connection\(|create_unix_connection\(|open_connection\("
    r"|open_unix_connection\(|start_tls\(|sock_connect\("
    r"|urlopen\(|HTTPS?Connection\(|\burllib\.request\b|\burllib3\b"
    r"|^\s*(?:from|import) (?:httpx|requests|websockets|psycopg|smtplib|ftplib)\b"
    r"|boto3\.client\(|(?:S3|GCS|Azure)Store\b|\bsocket\.socket\(",
    re.MULTILINE,
)
KNOWN = {
    "adapters/network/web.py": "checks each address",
    "adapters/network/network.py": "checks each address; asks which ones are local",
    "adapters/tools/postgres/connections.py": "by a loop that checks each address",
    "adapters/tools/classic/nats.py": "to a checked address",
    "adapters/nats/connection.py": "the operator's setting nats",
    "adapters/postgres.py": "the operator's setting database",
    "adapters/sessions/importing.py": "an argument of the operator's command line",
    "adapters/exports/http.py": "the settings otlp_endpoint and clickhouse_url",
    "adapters/worker_http/transport.py": "a worker's servers, by its own settings",
    "adapters/worker_http/connection.py": "the proxy of a worker, by its own settings",
    "adapters/blobs/object_store.py": "results_url; a bucket of one's own machine",
    "adapters/secrets/providers.py": "clouds, by entries that an operator declared",
    "adapters/processes/noetl_child/launch.py": "the launcher's own pair of sockets",
    "api/http/server.py": "listens",
    "client/http.py": "a command's server, by its user's settings",
    "local/services/nats.py": "the NATS that noetl up starts",
    "local/services/process.py": "looks for a free port",
    "local/services/postgres.py": "the PostgreSQL that noetl up starts",
    "commands/doctor_checks/machine.py": "a probe on loopback",
    "commands/remote/web_page.py": "looks whether a port of its own is free",
    "commands/up.py": "asks the holder of its own port who it is",
    "local/control_socket.py": "the socket of a run, in the home",
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
        ("adapters/tools/postgres/connections.py", "PinnedLoop(network)"),
        ("adapters/tools/postgres/connections.py", "connect=dialer.connect"),
        ("adapters/tools/classic/sources.py", "Dialer("),
        ("adapters/tools/classic/nats.py", "await pin("),
        ("adapters/tools/http/client.py", "open_session("),
        ("adapters/secrets/http.py", "open_session("),
        ("adapters/accounts/oidc_provider.py", "open_session("),
    ):
        assert sign in (SOURCE / file).read_text(), file
