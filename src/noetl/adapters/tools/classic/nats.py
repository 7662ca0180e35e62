"""Kind ``nats``: keys, objects and messages of a NATS server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from noetl.adapters.processes.limits import read_timeout
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.extras import install_command
from noetl.types import JSON

if TYPE_CHECKING:
    from nats.aio.client import Client

    from noetl.adapters.network import Network
    from noetl.ports import ToolCall


_READING = frozenset({"kv_get", "kv_list", "object_get"})
_URLS = ("url", "nats_url", "servers", "value")
_EXPECTED = "give url: nats://host:4222, or auth with a url"
_CONNECT = 10
_PORT = 4222


class Server(NamedTuple):
    """Servers, tried in this order, and the credential."""

    urls: list[SplitResult]
    credential: dict[str, Any]


class NatsTool:
    """Opens a connection for each call."""

    instant = False

    def __init__(self, network: Network) -> None:
        self._network = network

    def has_effect(self, call: ToolCall) -> bool:
        return call.inputs.get("operation") not in _READING

    async def run(self, call: ToolCall) -> Outcome:
        import asyncio

        try:
            import nats.errors
            import nats.js.errors
        except ModuleNotFoundError:
            message = "kind nats needs the package nats-py"
            hint = f"run: {install_command('nats')}"
            raise ToolError("nats.driver", f"{message}; {hint}") from None
        from noetl.adapters.network import BlockedAddress
        from noetl.adapters.tools.classic.broker import perform

        where = read_server(call.inputs)
        seconds = read_timeout(call.spec)
        try:
            async with asyncio.timeout(seconds) as limit:
                client = await self._connect(where)
                try:
                    return Outcome.ok(await perform(client, call.inputs))
                finally:
                    await client.close()
        except TimeoutError:
            expired = limit.expired()
            what = (
                f"not done after {seconds:g} s" if expired else "NATS does not answer"
            )
            raise ToolError("timeout", what, retryable=True) from None
        except nats.errors.NoServersError:
            message = "no connection to NATS: no server answers"
            raise ToolError("connection", message, retryable=True) from None
        except nats.js.errors.NotFoundError as error:
            raise ToolError("nats.missing", f"NATS did not find it: {error}") from None
        except (nats.errors.Error, ValueError) as error:
            raise ToolError("nats.refused", f"NATS: {error!s:.200}") from None
        except BlockedAddress as error:
            raise ToolError("nats.blocked_address", str(error)) from None
        except OSError as error:
            message = f"no connection to NATS: {error.strerror or type(error).__name__}"
            raise ToolError("connection", message, retryable=True) from None

    async def _connect(self, where: Server) -> Client:
        """Connect to a checked address of the first server that answers.

        The client uses this address alone, not those that a server announces.
        """
        import nats.errors
        from nats.aio.client import Client

        failed: Exception = nats.errors.NoServersError()
        for url in where.urls:
            for pinned in await pin(url, self._network):
                client = Client()
                try:
                    await client.connect(
                        pinned,
                        **where.credential,
                        tls_hostname=url.hostname,
                        allow_reconnect=False,
                        connect_timeout=_CONNECT,
                        max_reconnect_attempts=1,  # the default is 60
                        reconnect_time_wait=0,
                        error_cb=_ignore,
                    )
                except (OSError, nats.errors.NoServersError) as error:
                    failed = error
                    await client.close()
                except BaseException:
                    await client.close()
                    raise
                else:
                    return client
        raise failed

    async def close(self) -> None:
        pass


async def _ignore(_: Exception) -> None:
    """Keep the client from printing errors, which it raises as well."""


async def pin(url: SplitResult, network: Network) -> list[str]:
    """Return URLs of the server with checked addresses. Raises ``OSError``."""
    who = url.netloc.rpartition("@")[0]
    user, port = f"{who}@" if who else "", url.port or _PORT
    found = await network.resolve(url.hostname or "", port)
    hosts = (f"[{each}]" if ":" in each else each for each in found)
    return [f"{url.scheme}://{user}{host}:{port}" for host in hosts]


def read_server(inputs: Mapping[str, JSON]) -> Server:
    auth = inputs.get("auth") or {}
    if not isinstance(auth, Mapping):
        message = "auth must be a mapping, or name an entry that the playbook declares"
        raise ToolError("auth", f"{message} under keychain")
    found = [inputs.get("url"), *(auth.get(name) for name in _URLS)]
    url = next((each for each in found if each), None)
    if not isinstance(url, str):
        raise ToolError("tool.contract", f"no server: {_EXPECTED}")
    credential: dict[str, Any] = {}
    for name in ("user", "password", "token"):
        value = auth.get(name) or auth.get(f"nats_{name}")
        if value is not None:
            credential[name] = str(value)
    return Server([read_url(each.strip()) for each in url.split(",")], credential)


def read_url(text: str) -> SplitResult:
    """Read a URL; messages do not quote it, since it may contain a token."""
    try:
        url = urlsplit(text if "://" in text else f"nats://{text}")
        known = url.scheme in ("nats", "tls") and url.hostname and url.port != 0
    except ValueError:
        known = None
    if not known:
        raise ToolError(
            "tool.contract", f"the url is not a valid address of NATS: {_EXPECTED}"
        )
    return url
