"""Call to a server of secrets; messages never quote its answer."""

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
_MAX_BYTES = 4 * 1024 * 1024
_RETRYABLE = frozenset({408, 425, 429})


def shown(url: str) -> str:
    """Return the URL without parts that may be secret. Raises ``ValueError``."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http or https URL")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


async def ask(
    method: str, url: str, who: str, network: Network | None = None, **options: Any
) -> JSON:
    """Return the JSON mapping that the server answers. Raises ``SecretError``.

    ``network`` limits addresses that a playbook chose; without it, an operator chose
    the address, and only metadata services are denied.
    """
    import aiohttp

    from noetl.adapters.network import Network
    from noetl.adapters.network.web import check_literal, find_blocked, open_session

    network = network or Network("allow")
    try:
        who = f"{who} {shown(url)}"
    except ValueError:
        message = f"{who}: the URL must be http or https"
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
        raise SecretError("secret.wrong", f"{who}: the URL is not valid") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        blocked = find_blocked(error)
        if blocked is not None:
            message = f"{who}: {blocked}"
            raise SecretError("secret.blocked_address", message) from None
        message = f"{who} cannot be reached ({type(error).__name__})"
        raise SecretError("secret.unreachable", message, retryable=True) from None
    if len(body) > _MAX_BYTES:
        message = f"{who} answered with more than {_MAX_BYTES} bytes"
        raise SecretError("secret.wrong", message)
    answer = _decode(body)
    if status != 200:
        raise _refused(who, status, answer)
    if not isinstance(answer, Mapping):
        raise SecretError("secret.wrong", f"{who} did not answer with a JSON mapping")
    return answer


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Read the body, or a little more than the limit if it is too large."""
    body = bytearray()
    while len(body) <= _MAX_BYTES:
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
