"""Redaction of generated secrets in every encoding; text without a secret stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_encodings import ENCODINGS

from noetl.engine.secrets.redaction import MASK, MIN_LONG, Redactor

pytestmark = pytest.mark.spec("S-41")

characters = st.characters(exclude_categories=["Cs"])
secrets = st.one_of(
    st.text("abcXYZ019+/=-_", min_size=MIN_LONG, max_size=60),
    st.text("ab \t\n\r\"'\\%&<>$`;|*u0x", min_size=MIN_LONG, max_size=60),
    st.text(characters, min_size=MIN_LONG, max_size=200),
).filter(lambda text: len(text.strip()) >= MIN_LONG)
around = st.text(characters, max_size=30)


def written(secret: str) -> set[str]:
    return {encode(secret) for encode in ENCODINGS.values()}


@pytest.mark.parametrize("name", ENCODINGS)
@given(secret=secrets, before=around, after=around)
def test_a_secret_is_masked_however_it_is_written(
    name: str, secret: str, before: str, after: str
) -> None:
    text = ENCODINGS[name](secret)

    masked = Redactor([secret]).data(f"{before} {text} {after}")

    assert MASK in masked
    assert text not in masked
    assert secret not in masked


@pytest.mark.parametrize("name", ENCODINGS)
@given(secret=secrets, before=around, after=around)
def test_nor_is_it_left_in_what_tells_of_an_error(
    name: str, secret: str, before: str, after: str
) -> None:
    text = ENCODINGS[name](secret)

    told = Redactor([secret]).report({"m": f"{before} {text} … {text} {after * 9}"})

    assert text not in told["m"]
    assert secret not in told["m"]


@given(
    known=st.lists(secrets, min_size=1, max_size=5),
    text=st.lists(st.one_of(around, secrets), max_size=8),
    data=st.data(),
)
def test_nothing_of_any_form_is_left_in_a_text_of_many_secrets(
    known: list[str], text: list[str], data: st.DataObject
) -> None:
    parts = list(text)
    for secret in known:
        form = data.draw(st.sampled_from(sorted(written(secret))))
        parts.insert(data.draw(st.integers(0, len(parts))), form)

    redactor = Redactor(known)
    masked = redactor.data("".join(parts))

    assert not [secret for secret in known if secret in masked]
    assert redactor.data(masked) == masked


@given(value=st.recursive(st.none() | st.integers() | around, st.lists, max_leaves=9))
def test_what_has_no_secret_is_the_very_same_value(value: Any) -> None:
    assert Redactor(["\U0001f512" * MIN_LONG]).data(value) is value
    assert Redactor([]).data(value) is value


@given(
    secret=st.text("QRSTUVWXYZ", min_size=MIN_LONG, max_size=40),
    text=st.text("abcdefgh 0123.,:{}[]\"'\\%&+", max_size=200),
)
def test_text_that_shares_nothing_with_a_secret_stays(secret: str, text: str) -> None:
    redactor = Redactor([secret])
    # Its encodings have other letters: they may be found here only if they are there.
    if all(form not in text for form in written(secret)):
        assert redactor.data({"k": [text]}) == {"k": [text]}


@given(first=secrets, second=secrets, overlap=st.integers(1, 6))
def test_secrets_that_overlap_are_both_gone(
    first: str, second: str, overlap: int
) -> None:
    second = first[-overlap:] + second

    masked = Redactor([first, second]).data(first + second[overlap:])

    assert first not in masked
    assert second not in masked
    assert second[overlap:] not in masked
