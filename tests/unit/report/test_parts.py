"""Markup, samples, values and words: the small parts of a page."""

from __future__ import annotations

import pytest

from noetl.report.markup import Html, element, join, prose
from noetl.report.samples import Sample
from noetl.report.values import Budget, inline, show_value
from noetl.report.words import duration


def test_text_is_escaped_and_markup_is_not() -> None:
    inner = element("b", "<i>")
    assert join(["a<b", inner, None, [Html("<hr>")]]) == ("a&lt;b<b>&lt;i&gt;</b><hr>")


def test_attributes_are_escaped_and_may_be_left_out() -> None:
    made = element("a", href='"><x>', hidden=True, title=None, open=False, class_="c")
    assert made == '<a href="&quot;&gt;&lt;x&gt;" hidden class="c"></a>'


def test_prose_has_names_in_backticks() -> None:
    assert prose("read `a<b` now") == "read <code>a&lt;b</code> now"


def test_a_sample_keeps_the_first_the_last_and_the_marked() -> None:
    sample: Sample[str] = Sample(2, 2, 1)
    for number in range(8):
        at = sample.add(str(number))
        if number in (0, 4, 5):
            sample.mark(at, str(number))

    assert list(sample.kept()) == [0, 1, 4, 6, 7]
    assert list(sample.parts()) == [
        (0, "0"),
        (1, "1"),
        (2, None),
        (4, "4"),
        (1, None),
        (6, "6"),
        (7, "7"),
    ]


def test_a_value_is_cut_and_says_how_to_see_it_all() -> None:
    shown = show_value({"a": "x" * 100}, Budget(1_000), 20, "noetl show 1 --json")
    assert "x" * 21 not in shown
    assert "The first 20 characters are shown" in shown
    assert "<code>noetl show 1 --json</code>" in shown


def test_a_spent_budget_shows_no_values() -> None:
    budget = Budget(10)
    show_value("x" * 50, budget, 40, "c")
    assert "Not shown" in show_value(1, budget, 40, "c")


def test_deep_values_end_somewhere() -> None:
    value: object = 1
    for _ in range(200):
        value = [value]
    assert "…" in show_value(value, Budget(10**6), 10**6, "c")


def test_a_long_line_is_cut() -> None:
    assert inline(["abc"] * 100, 20).endswith("…")
    assert len(inline(["abc"] * 100, 20)) == 20


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 ms"),
        (0.0004, "0.4 ms"),
        (0.083, "83 ms"),
        (0.9999, "1 s"),
        (1.24, "1.24 s"),
        (59.96, "1 m 00 s"),
        (125, "2 m 05 s"),
        (12_000, "3 h 20 m"),
        (187_200, "2 d 4 h"),
        (None, "not over"),
    ],
)
def test_durations_in_words(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
