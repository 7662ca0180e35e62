"""Where a server may listen: beyond this machine only with accounts, and by TLS."""

from __future__ import annotations

from ipaddress import ip_address

from noetl.errors import ConfigError


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # a name may lead anywhere


def check_binding(host: str, *, auth: bool, tls: bool, behind_proxy: bool) -> None:
    """Raises ``ConfigError`` if the server would be open to others (row 100)."""
    if is_loopback(host):
        return
    if not auth:
        message = f"others can reach {host}, and no account but the home's is there"
        hint = "make one (noetl user add NAME --role admin), or bind 127.0.0.1"
        raise ConfigError(f"auth.required_for_bind: {message}: {hint}")
    if not (tls or behind_proxy):
        message = f"passwords and tokens would cross the network to {host} in the clear"
        hint = "give it a certificate (--tls-cert, --tls-key), or put a proxy that "
        hint += "speaks TLS before it, and say --behind-proxy"
        raise ConfigError(f"auth.required_for_bind: {message}: {hint}")
