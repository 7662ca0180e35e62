"""Address and user of a database: a URL, or the members of a credential.

The worker's environment and home are not read: a playbook that names a host must not be
able to send it the operator's password.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec
from msgspec.structs import replace

from noetl.adapters.files import Roots
from noetl.errors import ToolError
from noetl.types import JSON

_SCHEMES = ("postgresql", "postgres")
_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_EXPECTED = "expected postgresql://user:password@host:port/database"
_ENCODE = "write / : @ ? # of a password as %2F %3A %40 %3F %23"
_SETTINGS = frozenset(
    (
        *("host", "port", "user", "password", "dbname", "database"),
        *("sslmode", "sslrootcert", "target_session_attrs"),
        *("application_name", "connect_timeout", "options"),
    )
)
_CERTIFICATES = 1024 * 1024
_NO_TICKETS = "gssapi" if os.name == "nt" else "sspi"
"""Library of the other operating system, so that no Kerberos ticket of the process is
sent to a server."""
_OTHER_NAMES = {"dbname": "database", "username": "user"}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a database; several hosts are tried in this order."""

    hosts: tuple[str, ...]
    ports: tuple[int, ...]
    user: str
    password: str
    database: str
    sslmode: str = "prefer"
    sslrootcert: str | None = None
    target_session_attrs: str = "any"
    application_name: str | None = None
    options: str | None = None
    connect_timeout: float = 10.0

    def __str__(self) -> str:
        pairs = zip(self.hosts, self.ports, strict=True)
        return ", ".join(f"{host}:{port}" for host, port in pairs)

    def arguments(self) -> dict[str, Any]:
        """Return all arguments of the driver, so that it reads no environment.

        The modes ``allow`` and ``prefer`` need the second attempt of a ``Dialer``.
        """
        return {
            "host": list(self.hosts),
            "port": list(self.ports),
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "ssl": self._tls(),
            "direct_tls": False,
            "krbsrvname": "postgres",
            "gsslib": _NO_TICKETS,
            "target_session_attrs": self.target_session_attrs,
            "server_settings": {"options": self.options} if self.options else {},
            "timeout": self.connect_timeout,
        }

    def _tls(self) -> ssl.SSLContext | bool:
        """Return a context without a client certificate.

        With a mode as text, the driver would load the certificate of the process's
        environment or home.
        """
        if self.sslmode == "disable":
            return False
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.sslmode == "verify-full"
        if self.sslmode in ("allow", "prefer"):
            context.verify_mode = ssl.CERT_NONE
        elif self.sslrootcert is not None:
            trust(context, self.sslrootcert)
        elif self.sslmode == "require":
            context.verify_mode = ssl.CERT_NONE  # as in libpq: encrypted, not verified
        else:
            context.load_default_certs()
        return context


def trust(context: ssl.SSLContext, certificate: str) -> None:
    try:
        if is_certificate(certificate):
            context.load_verify_locations(cadata=certificate)
        else:
            context.load_verify_locations(cafile=os.path.expanduser(certificate))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        message = f"sslrootcert: {why or 'it is not a certificate'}"
        raise ToolError("pg.tls", message) from None


def read_address(inputs: Mapping[str, JSON], roots: Roots | None = None) -> Address:
    """Read ``dsn`` or ``auth``. Raises ``ToolError``, which never quotes them.

    With ``roots`` a certificate must be below them, unless the machine is the user's
    own.
    """
    address = find_address(inputs)
    file = address.sslrootcert
    if roots is None or roots.own or file is None or is_certificate(file):
        return address
    with roots.open_file(file, "sslrootcert", "pg.tls") as opened:
        text = opened.read(_CERTIFICATES).decode(errors="replace")
    if not is_certificate(text):
        raise ToolError("pg.tls", "sslrootcert: it is not a certificate")
    return replace(address, sslrootcert=text)


def is_certificate(text: str) -> bool:
    return "-----BEGIN" in text


def find_address(inputs: Mapping[str, JSON]) -> Address:
    dsn, auth = inputs.get("dsn"), inputs.get("auth")
    if dsn is not None and auth is not None:
        raise ToolError("tool.contract", "give either dsn or auth, not both")
    if isinstance(auth, Mapping):
        url = auth.get("dsn") or auth.get("value")  # the whole URL as one secret
        given = parse_url("auth", url) if isinstance(url, str) else {}
        return build("auth", {**given, **credential(auth)})
    if isinstance(auth, str) and auth.partition("://")[0] in _SCHEMES:
        return build("auth", parse_url("auth", auth))
    if auth is not None:
        message = "auth must be a mapping or a URL, or name an entry that the playbook"
        raise ToolError("auth", f"{message} declares under keychain")
    if dsn is None:
        raise ToolError("tool.contract", "no database: give dsn or auth")
    if not isinstance(dsn, str):
        raise ToolError("tool.contract", f"dsn must be text; {_EXPECTED}")
    return build("dsn", parse_url("dsn", dsn))


def credential(auth: Mapping[str, JSON]) -> dict[str, str]:
    """Return the known members; a secret store may have added others."""
    found: dict[str, str] = {}
    for name, value in auth.items():
        name = _OTHER_NAMES.get(name, name)
        if name in _SETTINGS and value is not None:
            if isinstance(value, bool | list | dict):
                message = f"auth.{name} must be text or a number"
                raise ToolError("tool.contract", message)
            found[name] = str(value)
    return found


def parse_url(where: str, text: str) -> dict[str, str]:
    try:
        url = urlsplit(text)
    except ValueError:
        raise no_url(where) from None
    if url.scheme not in _SCHEMES:
        raise ToolError("tool.contract", f"{where} is not a valid URL; {_EXPECTED}")
    if "@" in url.path or "@" in url.query or url.fragment:
        raise no_url(where)
    found = parse_authority(url)
    for name, value in parse_query(where, url.query):
        if name not in _SETTINGS:
            message = f"{where}: unknown setting '{name[:40]}'"
            hint = "server settings go into options=-c%20name%3Dvalue"
            raise ToolError("tool.contract", f"{message}; {hint}")
        found[_OTHER_NAMES.get(name, name)] = value
    return found


def no_url(where: str) -> ToolError:
    return ToolError("tool.contract", f"{where}: invalid URL; {_ENCODE}; {_EXPECTED}")


def parse_query(where: str, text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    try:
        return parse_qsl(text, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        message = f"{where}: write name=value pairs after '?'"
        raise ToolError("tool.contract", message) from None


def parse_authority(url: SplitResult) -> dict[str, str]:
    who, _, hosts = url.netloc.rpartition("@")
    user, _, password = who.partition(":")
    found = {
        "user": unquote(user),
        "password": unquote(password),
        "database": unquote(url.path.removeprefix("/")),
    }
    names, ports = [], []
    for host in hosts.split(",") if hosts else []:
        name, colon, port = host.rpartition(":")
        if not colon or port.endswith("]"):
            name, port = host, ""
        names.append(unquote(name.strip("[]")))
        ports.append(port)
    found["host"] = ",".join(names)
    found["port"] = ",".join(ports)
    return {name: value for name, value in found.items() if value.strip(",")}


def build(where: str, found: Mapping[str, str]) -> Address:
    if not found.get("user"):
        raise ToolError("auth", f"{where} names no user; {_EXPECTED}")
    mode = found.get("sslmode", "prefer")
    if mode not in _MODES:
        message = f"{where}: sslmode must be one of {', '.join(_MODES)}"
        raise ToolError("tool.contract", message)
    hosts = tuple(found.get("host", "localhost").split(","))
    return Address(
        hosts=hosts,
        ports=read_ports(where, found.get("port", ""), len(hosts)),
        user=found["user"],
        password=found.get("password", ""),
        database=found.get("database") or found["user"],
        sslmode=mode,
        sslrootcert=found.get("sslrootcert"),
        target_session_attrs=found.get("target_session_attrs", "any"),
        application_name=found.get("application_name"),
        options=found.get("options"),
        connect_timeout=read_seconds(where, found.get("connect_timeout", "10")),
    )


def read_ports(where: str, text: str, hosts: int) -> tuple[int, ...]:
    given = text.split(",")
    if len(given) == 1:
        given *= hosts
    numbers = [
        int(port or 5432) if port.isdecimal() or not port else 0 for port in given
    ]
    if len(numbers) != hosts or not all(0 < number < 65536 for number in numbers):
        message = f"{where}: a port must be a number of 1 to 65535 ({_ENCODE})"
        raise ToolError("tool.contract", message)
    return tuple(numbers)


def read_seconds(where: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        message = f"{where}: connect_timeout must be a number of seconds, up to 3600"
        raise ToolError("tool.contract", message)
    return seconds
