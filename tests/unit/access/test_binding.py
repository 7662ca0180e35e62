"""Where a server may listen."""

from __future__ import annotations

import pytest

from noetl.access.request_guard import check_binding
from noetl.access.sessions import LoginCodes
from noetl.errors import ConfigError


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost"]
)
def test_on_this_machine_nothing_is_asked_for(host: str) -> None:
    check_binding(host, auth=False, tls=False, behind_proxy=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "noetl.example.com", ""])
def test_beyond_it_authentication_and_encryption_are(host: str) -> None:
    for auth, tls, behind_proxy, message in (
        (
            False,
            False,
            False,
            "local account .*: create one .noetl user add NAME --role admin., or bind",
        ),
        (False, True, True, "only the local account exists"),
        (
            True,
            False,
            False,
            "unencrypted: give it a certificate .* pass --behind-proxy",
        ),
    ):
        with pytest.raises(ConfigError, match=message) as e:
            check_binding(host, auth=auth, tls=tls, behind_proxy=behind_proxy)
        assert str(e.value).startswith("auth.required_for_bind: ")
    check_binding(host, auth=True, tls=True, behind_proxy=False)
    check_binding(host, auth=True, tls=False, behind_proxy=True)


def test_unredeemed_codes_do_not_fill_the_memory() -> None:
    invitations = LoginCodes()
    codes = [
        invitations.issue(f"u{number}", number.to_bytes(32, "big"), 0.0)
        for number in range(1001)
    ]

    assert invitations.redeem(codes[0], 1.0) is None
    assert invitations.redeem(codes[-1], 1.0) == "u1000"
    assert invitations.redeem(codes[-1], 1.0) is None


def test_codes_of_one_user_end_no_codes_of_others() -> None:
    invitations = LoginCodes()
    kept = invitations.issue("u1", bytes(32), 0.0)
    codes = [
        invitations.issue("eager", number.to_bytes(32, "big"), 0.0)
        for number in range(1, 1_500)
    ]

    valid = [each for each in codes if invitations.redeem(each, 1.0) == "eager"]
    assert valid == codes[-10:]
    assert invitations.redeem(kept, 1.0) == "u1"
