"""Kind ``nats``: keys, objects and messages of a NATS server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from noetl.adapters.processes.limits import read_timeout
from noetl.engine.outcome import Outcome
from noetl.errors import ToolError
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.ports import ToolCall

_INSTALL = "run: pip install '.[nats]' in a checkout of NoETL"
_READING = frozenset({"kv_get", "kv_list", "object_get"})
_URLS = ("url", "nats_url", "servers", "value")
_CONNECT = 10.0


class NatsTool:
    """Connects for each call: who waits for a server does not hold a connection."""

    instant = False

    def has_effect(self, call: ToolCall) -> bool:
        return call.inputs.get("operation") not in _READING

    async def run(self, call: ToolCall) -> Outcome:
        import asyncio

        try:
            import nats
            import nats.errors
            import nats.js.errors
        except ModuleNotFoundError:
            message = f"kind nats needs the package nats-py; {_INSTALL}"
            raise ToolError("nats.driver", message) from None
        from noetl.adapters.tools.classic.broker import perform

        where = read_server(call.inputs)
        seconds = read_timeout(call.spec)
        try:
            async with asyncio.timeout(seconds) as limit:
                client = await nats.connect(
                    **where,
                    allow_reconnect=False,
                    connect_timeout=_CONNECT,
                    max_reconnect_attempts=1,  # else it tries sixty times
                    reconnect_time_wait=0,
                    error_cb=_ignore,
                )
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
            message = "no connection to NATS: nobody answers there"
            raise ToolError("connection", message, retryable=True) from None
        except nats.js.errors.NotFoundError as error:
            raise ToolError(
                "nats.missing", f"NATS has no such thing: {error}"
            ) from None
        except (nats.errors.Error, ValueError) as error:
            raise ToolError("nats.refused", f"NATS: {error!s:.200}") from None
        except OSError as error:
            message = f"no connection to NATS: {error.strerror or type(error).__name__}"
            raise ToolError("connection", message, retryable=True) from None

    async def close(self) -> None:
        pass


async def _ignore(_: Exception) -> None:
    """What goes wrong is raised as well; the client would print it."""


def read_server(inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    auth = inputs.get("auth") or {}
    if not isinstance(auth, Mapping):
        raise ToolError("auth", "auth is text, and names no entry of keychain")
    found = [inputs.get("url"), *(auth.get(name) for name in _URLS)]
    url = next((each for each in found if each), None)
    if not isinstance(url, str):
        message = "no server: give url: nats://host:4222, or auth with a url"
        raise ToolError("tool.contract", message)
    where: dict[str, JSON] = {"servers": [each.strip() for each in url.split(",")]}
    for name in ("user", "password", "token"):
        value = auth.get(name) or auth.get(f"nats_{name}")
        if value is not None:
            where[name] = str(value)
    return where
