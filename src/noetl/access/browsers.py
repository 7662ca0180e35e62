"""What a browser may send: checks of Host, Origin and Sec-Fetch-Site.

A web page can make its visitor's browser talk to a server on the same machine. These
headers say whose page it was; the page itself cannot change them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from noetl.errors import AccessError, ConfigError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
READING = frozenset({"GET", "HEAD"})
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(
    r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?)"
    r"(?::(?P<port>[0-9]{1,5}))?\Z"
)
_OWN = frozenset({"same-origin", "none"})


class Hosts:
    """The names by which clients reach this server; one without a port fits any."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names)
        for name in self._names:
            if _HOST.match(name) is None or name.split(":")[0] == "0.0.0.0":
                message = f"'{name:.60}' is no name of a host: noetl.example.com, or"
                raise ConfigError(f"{message} with a port: noetl.example.com:8443")

    def check(self, values: Sequence[str], local: str = "") -> str:
        """The host that was asked for, by all Host headers of the request.

        Any other name means that it was made to resolve to this server. ``local`` is
        the address that the connection came in at: it is not a name that somebody
        could make resolve, and what probes a machine by its address asks for it.
        """
        found = values[0].lower() if len(values) == 1 else ""
        match = _HOST.match(found)
        if match is not None and {found, match["name"]} & self._names:
            return found
        if match is not None and local and match["name"] == _as_host(local):
            return found
        message = "this server is not known by that name; its operator can add it"
        raise AccessError("host.not_allowed", message, 421)


def _as_host(address: str) -> str:
    """An address of this machine, as a Host header says it."""
    plain = address.partition("%")[0].lower().removeprefix("::ffff:")
    return f"[{plain}]" if ":" in plain else plain


def check_origin(
    method: str,
    headers: Mapping[str, Sequence[str]],
    host: str,
    scheme: str,
    *,
    cookie: bool,
    stream: bool = False,
) -> None:
    """Refuse what another site's page sent. Raises ``AccessError``.

    ``headers`` has all values by lower-case names; ``host`` is what ``Hosts.check``
    found; ``scheme`` is the one clients use. By a ``cookie``, which browsers send
    unasked, a change, and the start of a ``stream`` such as a WebSocket, must say
    where it comes from.
    """
    origins = headers.get("origin", ())
    sites = [site.strip().lower() for site in headers.get("sec-fetch-site", ())]
    if any(not same_origin(origin, host, scheme) for origin in origins):
        raise _foreign("the request comes from a page of another origin")
    if any(site not in _OWN for site in sites) and not _is_link(method, headers):
        raise _foreign("the request comes from a page of another site")
    reads = method.upper() in READING and not stream
    if cookie and not (reads or origins or sites):
        message = "a change by cookie needs an Origin or Sec-Fetch-Site header"
        raise _foreign(f"{message}; programs use a token: Authorization: Bearer ntl_…")


def same_origin(origin: str, host: str, scheme: str) -> bool:
    """``null``, and whatever is no origin, is nobody's."""
    try:
        parts = urlsplit(origin.strip().lower())
        port = parts.port
    except ValueError:
        return False
    if parts.scheme != scheme or origin.strip().lower() != f"{scheme}://{parts.netloc}":
        return False
    match = _HOST.match(host)
    known = _HOST.match(parts.netloc)
    if match is None or known is None:
        return False
    default = _PORTS[scheme]
    return (known["name"], port or default) == (
        match["name"],
        int(match["port"] or default),
    )


def _is_link(method: str, headers: Mapping[str, Sequence[str]]) -> bool:
    """Somebody follows a link to us: they see a page, and the other site nothing."""
    mode = [value.strip().lower() for value in headers.get("sec-fetch-mode", ())]
    goal = [value.strip().lower() for value in headers.get("sec-fetch-dest", ())]
    return method.upper() in READING and (mode, goal) == (["navigate"], ["document"])


def _foreign(message: str) -> AccessError:
    return AccessError("host.not_allowed", message)
