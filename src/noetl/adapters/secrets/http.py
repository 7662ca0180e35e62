"""One call to a server that gives out secrets: its answer never reaches a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from noetl.errors import SecretError
from noetl.types import JSON

if TYPE_CHECKING:
    import aiohttp

    from noetl.adapters.network import Network

SECONDS = 30.0
_LARGEST = 4 * 1024 * 1024
_RETRYABLE = frozenset({408, 425, 429})


def shown(url: str) -> str:
    """An address for people: without what may be secret in it.

    Raises ``ValueError``.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("no http or https address")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


async def ask(
    method: str, url: str, who: str, network: Network | None = None, **options: Any
) -> JSON:
    """The JSON mapping that the server answers with. Raises ``SecretError``.

    ``network`` is what the author of the address may reach; without it, an operator
    chose the address, and only metadata services are out of reach.
    """
    import aiohttp

    from noetl.adapters.network import Network
    from noetl.adapters.network.web import check_literal, find_blocked, open_session

    network = network or Network("allow")
    try:
        who = f"{who} {shown(url)}"
    except ValueError:
        message = f"{who}: its address is none of http or https"
        raise SecretError("secret.wrong", message) from None
    try:
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        await check_literal(network, parts.hostname or "", port)
        async with (
            open_session(network, timeout=timeout) as session,
            session.request(method, url, allow_redirects=False, **options) as response,
        ):
            body = await _read(response)
            status = response.status
    except ValueError:  # its text may quote the address, which may be secret
        raise SecretError("secret.wrong", f"{who}: the address is wrong") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        blocked = find_blocked(error)
        if blocked is not None:
            message = f"{who}: {blocked}"
            raise SecretError("secret.blocked_address", message) from None
        message = f"{who} cannot be reached ({type(error).__name__})"
        raise SecretError("secret.unreachable", message, retryable=True) from None
    if len(body) > _LARGEST:
        message = f"{who} answered with more than {_LARGEST} bytes"
        raise SecretError("secret.wrong", message)
    answer = _decode(body)
    if status != 200:
        raise _refused(who, status, answer)
    if not isinstance(answer, Mapping):
        raise SecretError("secret.wrong", f"{who} did not answer with a JSON mapping")
    return answer


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The whole body; of one that is too large, a little more than is taken."""
    body = bytearray()
    while len(body) <= _LARGEST:
        part = await response.content.readany()
        if not part:
            break
        body += part
    return bytes(body)


def _decode(body: bytes) -> JSON:
    import msgspec

    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None


def _refused(who: str, status: int, answer: JSON) -> SecretError:
    code = answer.get("error") if isinstance(answer, Mapping) else None
    said = f" ({code})" if isinstance(code, str) and code.isidentifier() else ""
    kind = "secret.unreachable"
    if status in (400, 401, 403):
        kind = "secret.denied"
    elif status == 404:
        kind = "secret.missing"
    retryable = status in _RETRYABLE or status >= 500
    return SecretError(kind, f"{who} answered with {status}{said}", retryable=retryable)
