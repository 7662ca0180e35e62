"""Which passwords are taken, how names are read, and how often one may try."""

from __future__ import annotations

import pytest

from noetl.access.accounts import check, normalize, read_name
from noetl.access.rate_limit import SlidingWindow
from noetl.errors import AccessError


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery staple",
        "tr0ub4dor&3-plus",
        "naïve café déjà vu",
        "x9#kQ2!mZ7pL",
        "密码是很长的一句话没有人知道它",
    ],
)
def test_a_good_password_is_taken(password: str) -> None:
    check(password, ["ann", "ann@example.com"])


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        ("", "is too short: it has 0 characters, the minimum is 12"),
        ("tiny1", "is too short: it has 5 characters, the minimum is 12"),
        ("x9#kQ2!mZ7p" * 30, "is too long: it has 330 characters, the maximum is 256"),
        ("aaaaaaaaaaaaaaaa", "has fewer than 5 different characters"),
        ("abababababababab", "has fewer than 5 different characters"),
        ("password1234", "is mostly a common word"),
        ("PasswordPassword!", "is mostly a common word"),
        ("123456789012345", "is mostly a common word"),
        ("qwertyuiop1234", "is mostly a common word"),
        ("ann@example.com1", "is mostly a common word"),
        ("with\0control chars", "contains a control character"),
        ("half \ud800 a character", "contains a control character"),
    ],
)
def test_a_bad_password_is_refused_with_the_reason(password: str, reason: str) -> None:
    with pytest.raises(AccessError) as e:
        check(password, ["ann", "ann@example.com", None])

    assert e.value.kind == "account.password"
    assert e.value.message.startswith(f"the password {reason}")
    assert not password or password not in e.value.message


def test_a_password_is_the_same_however_it_is_composed() -> None:
    assert normalize("cafe\u0301") == normalize("caf\u00e9")


def test_names_of_accounts_do_not_depend_on_case() -> None:
    assert read_name(" Ann@Example.COM ") == "ann@example.com"


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 200, ".a", "ann\u202ebob"])
def test_a_wrong_name_is_explained(name: str) -> None:
    with pytest.raises(AccessError, match="is not a valid account name; use letters"):
        read_name(name)


def test_ten_attempts_a_minute_and_then_a_wait() -> None:
    attempts = SlidingWindow(10)
    key = ("10.0.0.1", "ann")

    assert [attempts.take(key, now) for now in range(10)] == [None] * 10
    assert attempts.take(key, 10.0) == 50.0
    assert attempts.take(("10.0.0.2", "ann"), 10.0) is None
    assert attempts.take(key, 59.9) is not None
    assert attempts.take(key, 60.0) is None
    assert attempts.take(key, 60.5) == 0.5


def test_a_refused_attempt_does_not_make_the_wait_longer() -> None:
    attempts = SlidingWindow(1)
    attempts.take("k", 0.0)
    for now in range(1, 60):
        assert attempts.take("k", now) is not None

    assert attempts.take("k", 60.0) is None


def test_a_success_resets_the_attempts() -> None:
    attempts = SlidingWindow(2)
    attempts.take("k", 0.0)
    attempts.take("k", 1.0)
    attempts.forget("k")

    assert attempts.take("k", 2.0) is None


def test_many_keys_do_not_fill_the_memory() -> None:
    attempts = SlidingWindow(10, capacity=100)
    for number in range(1000):
        attempts.take(number, 0.0)

    assert len(attempts) == 100
