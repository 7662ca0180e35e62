"""Templates, samples, values and words: the small parts of a page."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from jinja2 import UndefinedError

from noetl.report.format import duration
from noetl.report.page import _environment
from noetl.report.runs import Sample
from noetl.report.values import Budget, inline, show_value
from noetl.types import JSON


def render(source: str, **names: object) -> str:
    """A template of ours, in the environment of the page."""
    return _environment().from_string(source).render(**names)


def shown(value: JSON, budget: Budget, limit: int, command: str) -> str:
    found = show_value(value, budget, limit, command)
    return render('{% from "parts.html" import value %}{{ value(shown) }}', shown=found)


def test_all_that_a_template_is_given_is_escaped() -> None:
    made = render('<a href="{{ text }}">{{ text }}</a>', text="\"'><i>&")
    assert made == (
        '<a href="&#34;&#39;&gt;&lt;i&gt;&amp;">&#34;&#39;&gt;&lt;i&gt;&amp;</a>'
    )


def test_characters_that_steer_are_made_visible() -> None:
    assert render("{{ text }}", text="a\x1b[2J\u202eb\n\tc") == "a\ufffd[2J\ufffdb\n\tc"


def test_what_a_template_misses_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("{{ missing }}")


def test_only_our_own_assets_are_called_safe() -> None:
    folder = files("noetl.report") / "templates"
    found = {
        match
        for file in folder.iterdir()
        for match in re.findall(r"\{\{([^}]*)\| *safe", file.read_text())
    }
    assert {each.strip() for each in found} == {"style", "script", "sections.graph.svg"}


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
    text = shown({"a": "x" * 100}, Budget(1_000), 20, "noetl show 1 --json")
    assert "x" * 21 not in text
    assert "The first 20 characters are shown" in text
    assert "<code>noetl show 1 --json</code>" in text


def test_a_spent_budget_shows_no_values() -> None:
    budget = Budget(10)
    shown("x" * 50, budget, 40, "c")
    assert "Not shown" in shown(1, budget, 40, "c")


def test_deep_values_end_somewhere() -> None:
    value: object = 1
    for _ in range(200):
        value = [value]
    assert "…" in shown(value, Budget(10**6), 10**6, "c")


def test_a_long_line_is_cut() -> None:
    assert inline(["abc"] * 100, 20).endswith("…")
    assert len(inline(["abc"] * 100, 20)) == 20


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 ms"),
        (0.0, "0 ms"),
        (0.0004, "0.4 ms"),
        (0.083, "83 ms"),
        (0.9999, "1.00 s"),
        (1.24, "1.24 s"),
        (59.96, "1 m 00 s"),
        (125, "2 m 05 s"),
        (12_000, "3 h 20 m"),
        (3599.6, "1 h 00 m"),
        (86_399, "23 h 59 m"),
        (187_200, "2 d 4 h"),
        (None, "not finished"),
    ],
)
def test_durations_in_words(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
