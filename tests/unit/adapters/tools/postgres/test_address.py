"""Addresses: URLs and credentials, and that no message repeats a part of them."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from noetl.adapters.tools.postgres.dsn import Address, read_address
from noetl.errors import ToolError

FULL = Address(hosts=("h",), ports=(5432,), user="u", password="p", database="d")


def changed(**members: Any) -> Address:
    import msgspec

    return msgspec.structs.replace(FULL, **members)


@pytest.mark.spec("PIPE-13", "KEY-07")
@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        pytest.param({"dsn": "postgresql://u:p@h/d"}, FULL, id="a url"),
        pytest.param({"dsn": "postgres://u:p@h:5432/d"}, FULL, id="the short scheme"),
        pytest.param(
            {"dsn": "postgresql://u%40x:p%2F%3A@h/d%20e"},
            changed(user="u@x", password="p/:", database="d e"),
            id="encoded characters",
        ),
        pytest.param(
            {"dsn": "postgresql://u:a@b@h/d"}, changed(password="a@b"), id="the last @"
        ),
        pytest.param(
            {"dsn": "postgresql://u@[::1]:6000"},
            changed(hosts=("::1",), ports=(6000,), password="", database="u"),
            id="an IPv6 address, and the user's own database",
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@a:1,b/d?target_session_attrs=read-write"},
            changed(
                hosts=("a", "b"), ports=(1, 5432), target_session_attrs="read-write"
            ),
            id="several hosts",
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@/d?host=/run/pg&connect_timeout=3"},
            changed(hosts=("/run/pg",), connect_timeout=3.0),
            id="a socket",
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@h/d?sslmode=verify-full&sslrootcert=ca.pem"},
            changed(sslmode="verify-full", sslrootcert="ca.pem"),
            id="TLS",
        ),
        pytest.param(
            {
                "auth": {
                    "host": "h",
                    "port": 5432,
                    "dbname": "d",
                    "username": "u",
                    "password": "p",
                    "engine": "postgres",
                    "sslmode": None,
                }
            },
            FULL,
            id="a credential as secret stores keep it",
        ),
        pytest.param(
            {"auth": {"host": "h", "database": "d", "user": "u", "password": "p"}},
            FULL,
            id="a credential",
        ),
        pytest.param({"auth": "postgresql://u:p@h/d"}, FULL, id="a url as credential"),
        pytest.param({"auth": {"dsn": "postgresql://u:p@h/d"}}, FULL, id="a dsn in it"),
        pytest.param(
            {"auth": {"value": "postgresql://u:p@h/d"}}, FULL, id="one secret value"
        ),
        pytest.param(
            {"auth": {"dsn": "postgresql://u:x@h/e", "password": "p", "dbname": "d"}},
            FULL,
            id="fields over a dsn",
        ),
    ],
)
def test_where_and_as_whom(inputs: dict[str, Any], expected: Address) -> None:
    assert read_address(inputs) == expected


@pytest.mark.parametrize(
    ("inputs", "kind", "message"),
    [
        pytest.param({}, "tool.contract", "give dsn or auth", id="none"),
        pytest.param({"auth": "pg_main"}, "auth", "or name an entry", id="a bare name"),
        pytest.param({"dsn": 5}, "tool.contract", "must be text", id="no text"),
        pytest.param(
            {"dsn": "mysql://root:hunter2@h/d"},
            "tool.contract",
            "not a valid URL",
            id="my",
        ),
        pytest.param(
            {"dsn": "host=h password=hunter2"},
            "tool.contract",
            "not a valid URL",
            id="kv",
        ),
        pytest.param(
            {"dsn": "postgresql://u:hunter2/x@h/d"},
            "tool.contract",
            "%2F",
            id="a slash in the password",
        ),
        pytest.param(
            {"dsn": "postgresql://u:p?hunter2=1@h/d"}, "tool.contract", "%3F", id="a ?"
        ),
        pytest.param(
            {"dsn": "postgresql://u:hunter2#x@h/d"}, "tool.contract", "%23", id="a hash"
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@h:hunter2/d"}, "tool.contract", "port", id="port"
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@h:99999/d"}, "tool.contract", "port", id="range"
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@[h/d"}, "tool.contract", "URL", id="a bracket"
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@h/d?passfile=.pgpass"},
            "tool.contract",
            "unknown setting 'passfile'",
            id="a file of the worker",
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@h/d?x"}, "tool.contract", "name=value", id="query"
        ),
        pytest.param(
            {"dsn": "postgresql://u:p@h/d?sslmode=hunter2"},
            "tool.contract",
            "sslmode must be one of",
            id="sslmode",
        ),
        pytest.param({"dsn": "postgresql://h/d"}, "auth", "names no user", id="nobody"),
        pytest.param(
            {"auth": {"user": "u", "password": ["hunter2"]}},
            "tool.contract",
            "auth.password must be text",
            id="a list",
        ),
        pytest.param(
            {"auth": {"user": "u"}, "dsn": "postgresql://u@h"},
            "tool.contract",
            "either dsn or auth",
            id="both",
        ),
    ],
)
def test_a_wrong_address_is_refused_without_repeating_it(
    inputs: dict[str, Any], kind: str, message: str
) -> None:
    with pytest.raises(ToolError) as raised:
        read_address(inputs)

    assert raised.value.kind == kind
    assert message in raised.value.message
    assert "hunter2" not in raised.value.message


def test_the_driver_is_left_nothing_to_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    address = read_address({"dsn": "postgresql://u@h"})

    assert {"host", "port", "user", "password", "database", "ssl"} <= {
        name for name, value in address.arguments().items() if value is not None
    }


@pytest.mark.parametrize(
    ("mode", "verify", "hostname"),
    [
        ("require", ssl.CERT_NONE, False),
        ("verify-ca", ssl.CERT_REQUIRED, False),
        ("verify-full", ssl.CERT_REQUIRED, True),
    ],
)
def test_how_much_tls_trusts(mode: str, verify: int, hostname: bool) -> None:
    context = changed(sslmode=mode).arguments()["ssl"]

    assert (context.verify_mode, context.check_hostname) == (verify, hostname)


def test_a_certificate_that_cannot_be_read_is_said() -> None:
    for wrong in ("/nowhere/ca.pem", "-----BEGIN CERTIFICATE-----\nx"):
        with pytest.raises(ToolError, match="sslrootcert"):
            changed(sslmode="verify-full", sslrootcert=wrong).arguments()
