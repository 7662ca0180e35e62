"""Checks of where a request comes from: addresses of clients, Host, Origin and
Sec-Fetch-Site.

A web page can make its visitor's browser send requests to a server on the same machine.
These headers identify the page, and the page cannot change them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

import msgspec

from noetl.access.credentials import Credential, read_credential
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
    """Host names of this server; a name without a port matches any port."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names)
        for name in self._names:
            if _HOST.match(name) is None or name.split(":")[0] == "0.0.0.0":
                message = f"'{name:.60}' is not a host name: use noetl.example.com, or"
                raise ConfigError(f"{message} with a port: noetl.example.com:8443")

    def check(self, values: Sequence[str], local: str = "") -> str:
        """Return the requested host from all Host headers. Raises ``AccessError``.

        An unknown name is refused, because an attacker may have made it resolve to this
        server. ``local`` is the address at which the connection arrived; it is
        accepted, because health probes use it and an address cannot be made to resolve.
        """
        found = values[0].lower() if len(values) == 1 else ""
        match = _HOST.match(found)
        if match is not None and {found, match["name"]} & self._names:
            return found
        if match is not None and local and match["name"] == _as_host(local):
            return found
        message = "unknown host name; the operator can add it with the setting hosts"
        raise AccessError("host.not_allowed", message, 421)


def _as_host(address: str) -> str:
    """Format an address of this machine as in a Host header."""
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
    """Refuse a request that a page of another site sent. Raises ``AccessError``.

    ``headers`` maps lower-case names to all values; ``host`` is the result of
    ``Hosts.check``; ``scheme`` is the scheme that clients use. With a ``cookie``, which
    browsers send by themselves, a change or the start of a ``stream`` such as a
    WebSocket needs an Origin or Sec-Fetch-Site header.
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
    """Return True if the origin is this server; ``null`` and malformed origins are
    not."""
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
    """Return True for a followed link: the other site cannot read the answer."""
    mode = [value.strip().lower() for value in headers.get("sec-fetch-mode", ())]
    goal = [value.strip().lower() for value in headers.get("sec-fetch-dest", ())]
    return method.upper() in READING and (mode, goal) == (["navigate"], ["document"])


def _foreign(message: str) -> AccessError:
    return AccessError("host.not_allowed", message)


class RequestGuard(msgspec.Struct, frozen=True):
    """Host names and scheme (``http`` or ``https``) by which clients reach this
    server."""

    hosts: Hosts
    scheme: str

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    def look(
        self,
        method: str,
        headers: Mapping[str, Sequence[str]],
        *,
        stream: bool = False,
        local: str = "",
    ) -> Credential | None:
        """Return the credential of a request that passes the browser checks.

        ``headers`` maps lower-case names to all values. ``stream`` marks a WebSocket or
        a stream of events; ``local`` is the address at which it arrived. Credentials in
        the URL are ignored, because logs and browser histories keep URLs. Raises
        ``AccessError``.
        """
        host = self.hosts.check(headers.get("host", ()), local)
        credential = read_credential(
            headers.get("authorization", ()),
            headers.get("cookie", ()),
            secure=self.secure,
        )
        cookie = credential is not None and credential.means == "session"
        check_origin(method, headers, host, self.scheme, cookie=cookie, stream=stream)
        return credential


_MAX_CHARS = 64


class Proxies:
    """Networks of trusted proxies; if empty, every peer is trusted as a proxy."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = [ip_network(each) for each in networks]

    def origin(self, peer: str, forwarded: Sequence[str]) -> str:
        """Return the client's address from all values of ``X-Forwarded-For``.

        Each proxy appends the address of its peer, so the last address that is not a
        trusted proxy is the client. The client may have forged the addresses before it.
        """
        chain = [each.strip() for text in forwarded for each in text.split(",")]
        if not self._networks:
            return (chain[-1] if chain else "")[:_MAX_CHARS] or peer
        found = peer
        while chain and self._is_ours(found):
            found = chain.pop()[:_MAX_CHARS]
        return found

    def is_shared(self, peer: str) -> bool:
        """Return True if the peer is a proxy, which sends requests of many clients."""
        return not self._networks or self._is_ours(peer)

    def _is_ours(self, address: str) -> bool:
        try:
            known = ip_address(address)
        except ValueError:
            return False
        return any(known in network for network in self._networks)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # a name may resolve to any address


def check_binding(host: str, *, auth: bool, tls: bool, behind_proxy: bool) -> None:
    """Raise ``ConfigError`` if others could reach the server unprotected (row 100)."""
    if is_loopback(host):
        return
    if not auth:
        message = f"other machines can reach {host}, and only the local account exists"
        hint = "create one (noetl user add NAME --role admin), or bind 127.0.0.1"
        raise ConfigError(f"auth.required_for_bind: {message}: {hint}")
    if not (tls or behind_proxy):
        message = f"passwords and tokens would reach {host} unencrypted"
        hint = "give it a certificate (--tls-cert, --tls-key), or put a TLS proxy "
        hint += "in front of it and pass --behind-proxy"
        raise ConfigError(f"auth.required_for_bind: {message}: {hint}")
