"""Kind ``http``: one request, one response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.dsl.grammar.records import ANY, BOOLEAN, MAPPING, TEXT, Field, Shape, integer
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Outcome

if TYPE_CHECKING:
    from noetl.adapters.network import Network
    from noetl.adapters.tools.http.client import Client
    from noetl.ports import ToolCall

_AUTH = Shape(("text", "mapping"), words="a keychain name, or {type: bearer, …}")
_STATUS = Shape(("integer", "list"), words="a status or a list of them")

_READING = frozenset({"GET", "HEAD", "OPTIONS"})

_NOTES = """
A name is resolved for each request and each redirect, and the connection goes to an
address that was checked. Metadata services of clouds, link-local, multicast and
unspecified addresses are never reached, and of NoETL itself no endpoint of the server
and its PostgreSQL and NATS. Private and loopback addresses are reached with `noetl run`
and `noetl up`; on a server the setting `network.private` allows them, or networks of
them. Else the error is `http.blocked_address`. A proxy follows the same rules, and so
does what is asked of it: no address that this machine finds for it may be denied.

`files` are `{name: text}` or `{name: {content | base64 | path, filename,
content_type}}`. A `path` is below the playbook's folder or the current one, on a server
below a folder of the setting `files.roots`.
"""

HTTP = Kind(
    name="http",
    doc="Sends one HTTP request.",
    inputs={
        "method": Input(TEXT, "The method (`GET`)."),
        "url": Input(TEXT, "The URL."),
        "endpoint": Input(TEXT, "Another name of `url`."),
        "headers": Input(MAPPING, "Request headers."),
        "params": Input(MAPPING, "Query parameters."),
        "json": Input(ANY, "Body, sent as JSON."),
        "data": Input(ANY, "Body, sent as a form."),
        "body": Input(ANY, "Body, sent as it is."),
        "files": Input(MAPPING, "Body, sent as multipart."),
        "auth": Input(_AUTH, "A keychain name, or how to authenticate."),
    },
    row="PIPE-12",
    result="Parsed JSON, else text. `outcome.http` has `status`, `headers`, "
    "`request_id`, `url`, `elapsed_ms`.",
    knobs={
        "ok_status": Field(_STATUS, "PIPE-10", "Statuses that count as success."),
        "verify": Field(BOOLEAN, "PIPE-10", "Whether certificates are verified."),
        "follow_redirects": Field(
            BOOLEAN, "PIPE-10", "Whether redirects are followed."
        ),
        "proxy": Field(TEXT, "PIPE-10", "The proxy's address."),
        "connections": Field(
            integer(1, 1000), "PIPE-10", "Maximum connections per host."
        ),
    },
    defaults={
        "timeout": {"connect": 10, "read": 60, "total": 300},
        "follow_redirects": True,
        "verify": True,
    },
    one_of=(("url", "endpoint"),),
    at_most_one=(("json", "data", "body", "files"),),
    notes=_NOTES,
)


class HttpTool:
    """Sends requests over shared connections, within ``host`` and ``network``.

    The default of ``network`` is that of the host policy.
    """

    instant = False

    def __init__(
        self, host: HostPolicy | None = None, network: Network | None = None
    ) -> None:
        self._host = host or own_host()
        self._network = network
        self._client: Client | None = None

    def has_effect(self, call: ToolCall) -> bool:
        return str(call.inputs.get("method") or "GET").upper() not in _READING

    async def run(self, call: ToolCall) -> Outcome:
        if self._client is None:
            from noetl.adapters.network import Network
            from noetl.adapters.tools.http.client import Client

            network = self._network or Network(self._host.private)
            self._client = Client(network, Files(self._host))
        return await self._client.call(call)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None
