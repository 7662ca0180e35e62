"""No secret is left in what was redacted, however it was written; the rest stays."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from secret_encodings import ENCODINGS

from noetl.engine.secrets.handles import Secrets
from noetl.engine.secrets.redaction import MASK, MIN_LINE, Redactor

pytestmark = pytest.mark.spec("S-41")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("a", MASK, id="equal"),
        pytest.param("banana", "banana", id="inside a word"),
        pytest.param({"a": ["a", "b"]}, {MASK: [MASK, "b"]}, id="keys and items"),
        pytest.param("true", MASK, id="a word that means something"),
        pytest.param([True, None, 1], [True, None, 1], id="no text"),
    ],
)
def test_a_short_secret_hides_what_is_equal_to_it(value: Any, expected: Any) -> None:
    assert Redactor(["a", "true", "1"]).data(value) == expected


def test_a_short_secret_may_be_left_alone() -> None:
    assert Redactor(["eu"]).data({"region": "eu"}, short=False) == {"region": "eu"}


def test_two_secrets_as_keys_stay_two_keys() -> None:
    masked = Redactor(["secret-one", "secret-two"]).data(
        {"secret-one": 1, "secret-two": 2}
    )

    assert sorted(masked.values()) == [1, 2]
    assert all(MASK in key for key in masked)


def test_a_number_that_is_a_secret_is_masked() -> None:
    assert Redactor(["4111222233"]).data({"card": 4111222233, "n": 41}) == {
        "card": MASK,
        "n": 41,
    }


def test_white_space_around_a_secret_is_ignored() -> None:
    assert Redactor(["  swordfish-9\n"]).data("got swordfish-9") == f"got {MASK}"


def test_a_blank_secret_hides_nothing() -> None:
    assert Redactor(["", "          "]).data("a          b") == "a          b"


def test_the_mask_itself_may_be_a_secret() -> None:
    redactor = Redactor(["***", "********", "x***y-z-1"])

    assert redactor.data("***") == MASK
    assert redactor.data("x********y-z-1") == MASK


@pytest.mark.parametrize("cut", range(5, 20))
@pytest.mark.parametrize("encoding", ["raw", "base64", "hexadecimal", "a query"])
def test_the_torn_ends_of_a_secret_are_masked_in_an_error(
    cut: int, encoding: str
) -> None:
    form = ENCODINGS[encoding]("k7#Xq2!vLp9@Zr4$Tw")
    redactor = Redactor(["k7#Xq2!vLp9@Zr4$Tw"])

    much = "x " * 100

    beginning = redactor.report(f"{much}{form[:cut]}")
    rest = redactor.report(f"{form[cut:]} {much}")
    middle = redactor.report(f"a {form[:cut]} … {form[cut:]} b")

    assert beginning == f"{much}{MASK}"
    assert rest == f"{MASK} {much}" or len(form) - cut < 4
    assert form[:cut] not in middle


def test_a_secret_that_a_message_quotes_and_cuts_is_masked() -> None:
    secret = "correct-horse-battery-staple"

    told = Redactor([secret]).report(f"'{secret[:20]} is no method")

    assert told == f"'{MASK} is no method"


def test_output_that_was_cut_is_masked_at_the_cut() -> None:
    secret = "correct-horse-battery-staple"
    text = f"x{secret[:12]}\n[… 99 bytes cut …]\n{secret[17:]}y"

    masked = Redactor([secret]).data({"stdout": text})["stdout"]

    assert masked == f"x{MASK}\n[… 99 bytes cut …]\n{MASK}y"
    assert Redactor([secret]).data(f"ends with {secret[:12]}").endswith(secret[:12])


def test_secrets_are_learned_one_by_one() -> None:
    redactor = Redactor()
    names = [f"secret number {number}" for number in range(300)]
    for name in names:
        redactor.learn([name])

    masked = redactor.data(" and ".join(names))

    assert not [name for name in names if name in masked]


@pytest.mark.parametrize(
    "text",
    [
        "\\" * 100_000,
        "%25" * 100_000,
        "'\"'\"" * 50_000,
        "aaaaaaa" * 50_000,
        " \n" * 300_000,
        "…\ufffd" * 50_000,
    ],
    ids=["backslashes", "percents", "quotes", "a long beginning", "blanks", "cuts"],
)
def test_hostile_text_is_masked_in_time(text: str) -> None:
    """It ends at all: nothing in it grows faster than the text."""
    secrets = ["\\\\\\\\\\\\\\\\x", "%25%25%25%25x", "''''''''x", "aaaaaaaaaaab"]

    assert MASK not in Redactor(secrets).data(text)
    Redactor(secrets).report([text, text[:1000]])


def test_a_secret_of_a_megabyte_is_masked() -> None:
    secret = "0123456789abcdef" * 65_536

    assert Redactor([secret]).data(f"<{secret}>") == f"<{MASK}>"


PEM = "\n".join(
    [
        "-----BEGIN PRIVATE KEY-----",
        *(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwgg{n:04d}Xk/Z+8a" for n in range(20)),
        "TXQ==",
        "-----END PRIVATE KEY-----",
    ]
)
LINES = [line for line in PEM.splitlines() if len(line) >= MIN_LINE]


@pytest.mark.parametrize(
    "form",
    [
        list,
        "\n".join,
        lambda lines: [f"  {line}\r" for line in lines],
        lambda lines: "|".join(reversed(lines)),
        lambda lines: {line: f"key={line};" for line in lines},
        lambda lines: json.dumps(lines),
        lambda lines: [quote(line, safe="") for line in lines],
        lambda lines: f"KEY = {lines[3]!r} # from the file",
    ],
)
@pytest.mark.parametrize("secret", [PEM, f"\n {PEM} \n", PEM.replace("\n", "\r\n")])
def test_the_lines_of_a_secret_are_masked_one_by_one(
    secret: str, form: Callable[[list[str]], Any]
) -> None:
    masked = str(Redactor([secret]).data(form(LINES)))

    assert MASK in masked
    for line in LINES:
        assert line not in masked
        assert quote(line, safe="") not in masked


def test_a_secret_inside_a_json_text_is_masked_line_by_line() -> None:
    account = json.dumps({"type": "service_account", "private_key": PEM}, indent=2)
    secrets = Secrets({"account": account})

    masked = secrets.redact(LINES)

    assert masked == [MASK] * len(LINES)


@pytest.mark.parametrize("cut", range(4, len(LINES[5]) - 3, 3))
def test_a_line_that_was_cut_is_masked_at_the_cut(cut: int) -> None:
    line = LINES[5]
    text = f"{LINES[4]}\n{line[:cut]}\n[… 99 bytes cut …]\n{line[cut:]}\n{LINES[7]}"

    masked = Redactor([PEM]).data({"stdout": text})["stdout"]

    assert masked == f"{MASK}\n{MASK}\n[… 99 bytes cut …]\n{MASK}\n{MASK}"


def test_short_lines_and_lines_of_documents_are_left() -> None:
    """A text of more than 32 KiB is a document rather than a credential."""
    document = "\n".join(
        f"line number {number} of a document" for number in range(2000)
    )

    assert Redactor([PEM]).data("TXQ==") == "TXQ=="
    assert Redactor([document]).data("line number 7 of a document").startswith("line")


@pytest.mark.parametrize(
    "text",
    [
        "the-same-beginning-" * 50_000,
        "the-same-beginning-00000-aaa" * 30_000,
        "-" * 500_000,
    ],
)
def test_many_lines_that_begin_alike_are_masked_in_time(text: str) -> None:
    lines = [f"the-same-beginning-{number:05d}-aaaa" for number in range(1000)]
    redactor = Redactor(["\n".join(lines)])

    began = time.process_time()
    redactor.data(text)
    redactor.report(text[:100_000])
    assert time.process_time() - began < 5.0
    assert redactor.data(lines[777]) == MASK


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        pytest.param("é-secret-é", "%FF" + quote("é-secret-é"), id="a byte before it"),
        pytest.param("zZ+%caé-secret", quote("zZ+%caé-secret"), id="an escape in it"),
        pytest.param("a\\xe9é-secret", quote("a\\xe9é-secret"), id="another in it"),
    ],
)
def test_a_secret_beside_an_invalid_byte_is_masked(secret: str, text: str) -> None:
    for masked in (
        Redactor([secret]).data(text),
        Redactor([secret]).report(text),
        Redactor([secret]).printed(text),
    ):
        assert MASK in masked
        assert "secret" not in masked
