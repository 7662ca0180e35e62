"""Requests that a web page makes its visitor send."""

from __future__ import annotations

import pytest

from noetl.access.request_guard import LOOPBACK, Hosts, check_origin
from noetl.errors import AccessError, ConfigError

HOSTS = Hosts([*LOOPBACK, "noetl.example.com", "proxy.example.com:8443"])


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8082",
        "LocalHost:8082",
        "127.0.0.1:9000",
        "[::1]:8082",
        "[::1]",
        "noetl.example.com",
        "proxy.example.com:8443",
    ],
)
def test_a_known_name_is_served(host: str) -> None:
    assert HOSTS.check([host]) == host.lower()


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["evil.com"],
        ["evil.com:8082"],
        ["0.0.0.0:8082"],
        ["localhost.evil.com"],
        ["localhost."],
        ["localhost:"],
        ["localhost:8082:1"],
        ["localhost:80820000"],
        ["user@localhost"],
        ["localhost/x"],
        ["localhost\n"],
        ["localhost localhost"],
        ["localhost", "evil.com"],
        ["localhost", "localhost"],
        ["127.1"],
        ["proxy.example.com"],
        ["proxy.example.com:8444"],
        ["[::2]"],
        ["localhost,evil.com"],
    ],
)
def test_a_foreign_host_name_is_refused(hosts: list[str]) -> None:
    with pytest.raises(AccessError) as e:
        HOSTS.check(hosts)

    assert (e.value.kind, e.value.status) == ("host.not_allowed", 421)


@pytest.mark.parametrize("name", ["", "http://x", "a b", "0.0.0.0", "*", "x:y"])
def test_a_wrong_name_in_the_configuration_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a host name"):
        Hosts([name])


def check(
    method: str,
    headers: dict[str, str],
    *,
    host: str = "localhost:8082",
    scheme: str = "http",
    cookie: bool = True,
    stream: bool = False,
) -> None:
    lists = {name: [value] for name, value in headers.items()}
    check_origin(method, lists, host, scheme, cookie=cookie, stream=stream)


OWN = "http://localhost:8082"


@pytest.mark.parametrize(
    ("method", "headers", "options"),
    [
        pytest.param("POST", {"origin": OWN}, {}, id="own page"),
        pytest.param("POST", {"sec-fetch-site": "same-origin"}, {}, id="fetch"),
        pytest.param("DELETE", {"sec-fetch-site": "none"}, {}, id="typed address"),
        pytest.param("POST", {}, {"cookie": False}, id="a program with a token"),
        pytest.param("GET", {}, {}, id="reading says nothing"),
        pytest.param("HEAD", {"sec-fetch-site": "same-origin"}, {}, id="head"),
        pytest.param(
            "GET",
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "document",
            },
            {},
            id="a link",
        ),
        pytest.param("GET", {"origin": OWN}, {"stream": True}, id="own WebSocket"),
        pytest.param("GET", {}, {"stream": True, "cookie": False}, id="streaming tool"),
        pytest.param(
            "POST",
            {"origin": "https://noetl.example.com"},
            {"host": "noetl.example.com:443", "scheme": "https"},
            id="default port",
        ),
        pytest.param(
            "POST", {"origin": "http://[::1]:8082"}, {"host": "[::1]:8082"}, id="IPv6"
        ),
    ],
)
def test_what_our_own_pages_and_programs_send_passes(
    method: str, headers: dict[str, str], options: dict[str, bool]
) -> None:
    check(method, headers, **options)


@pytest.mark.parametrize(
    ("method", "headers", "options"),
    [
        pytest.param("POST", {}, {}, id="a cookie that says nothing"),
        pytest.param("TRACE", {}, {}, id="any method but reading"),
        pytest.param("POST", {"origin": "null"}, {}, id="null"),
        pytest.param("POST", {"origin": "http://evil.com"}, {}, id="foreign"),
        pytest.param("POST", {"origin": "http://localhost:9999"}, {}, id="other port"),
        pytest.param("POST", {"origin": "https://localhost:8082"}, {}, id="scheme"),
        pytest.param("POST", {"origin": OWN + "/x"}, {}, id="no origin: a path"),
        pytest.param("POST", {"origin": "http://localhost:x"}, {}, id="no port"),
        pytest.param("POST", {"origin": "http://a@localhost:8082"}, {}, id="userinfo"),
        pytest.param("POST", {"origin": ""}, {}, id="empty"),
        pytest.param("POST", {"sec-fetch-site": "cross-site"}, {}, id="cross-site"),
        pytest.param("POST", {"sec-fetch-site": "same-site"}, {}, id="a sibling"),
        pytest.param(
            "POST", {"origin": OWN, "sec-fetch-site": "cross-site"}, {}, id="both"
        ),
        pytest.param(
            "POST",
            {"origin": "http://evil.com", "sec-fetch-site": "same-origin"},
            {},
            id="they contradict each other",
        ),
        pytest.param(
            "POST", {"origin": "http://evil.com"}, {"cookie": False}, id="with a token"
        ),
        pytest.param("GET", {"origin": "http://evil.com"}, {}, id="reading, foreign"),
        pytest.param("GET", {"sec-fetch-site": "cross-site"}, {}, id="an image"),
        pytest.param(
            "POST",
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "document",
            },
            {},
            id="a form that is posted here",
        ),
        pytest.param(
            "GET",
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "iframe",
            },
            {},
            id="a frame",
        ),
        pytest.param(
            "GET", {"origin": "http://evil.com"}, {"stream": True}, id="WebSocket"
        ),
        pytest.param("GET", {}, {"stream": True}, id="a stream that says nothing"),
    ],
)
def test_what_another_sites_page_sends_is_refused(
    method: str, headers: dict[str, str], options: dict[str, bool]
) -> None:
    with pytest.raises(AccessError) as e:
        check(method, headers, **options)

    assert (e.value.kind, e.value.status) == ("host.not_allowed", 403)


def test_two_origins_must_both_be_ours() -> None:
    with pytest.raises(AccessError):
        check_origin(
            "POST", {"origin": [OWN, "null"]}, "localhost:8082", "http", cookie=True
        )


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("10.0.0.5:8082", "10.0.0.5"),
        ("10.0.0.5:8082", "::ffff:10.0.0.5"),
        ("[fe80::1]:8082", "fe80::1%eth0"),
        ("[2001:db8::7]", "2001:DB8::7"),
    ],
)
def test_the_address_that_was_connected_to_is_a_name(host: str, local: str) -> None:
    assert HOSTS.check([host], local) == host


@pytest.mark.parametrize(
    ("host", "local"),
    [("10.0.0.6", "10.0.0.5"), ("evil.example", "10.0.0.5"), ("10.0.0.5", "")],
)
def test_another_address_is_not(host: str, local: str) -> None:
    with pytest.raises(AccessError, match="unknown host name"):
        HOSTS.check([host], local)
