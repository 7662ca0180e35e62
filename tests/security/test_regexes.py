"""No text that a caller or an author chooses keeps the event loop busy."""

from __future__ import annotations

from time import process_time

import pytest
from latency import Latency
from regexes import DYNAMIC, Found, attacks, find, measure
from servers import Api, Running, playbook

from noetl.dsl.json_schema import FORMATS, find_flaws, find_problems
from noetl.errors import TemplateError
from noetl.templates import compile_template

EXPLODING = [
    r"^/([A-Za-z0-9_.-]+/?)*$",
    r"(?s)(?:\s|\(|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*([A-Za-z_]+|\Z)",
    r"(a|a)*b",
    r"(a*)*b",
    r"\s*a?\s*\Z",
    r"x(.*)y",
]
LIMIT = 0.15
"""Seconds of the processor for a text of 50,000 characters."""
MADE_AT_RUN_TIME = {
    "commands/files/playbook_files.py": "a name of the grammar after blanks, escaped",
    "engine/secrets/redaction.py": "secrets, escaped, none a prefix of another",
    "testing/matchers.py": "an author's expression, in a process of the tests alone",
    "testing/diff.py": "the same",
}


@pytest.mark.parametrize("pattern", EXPLODING)
def test_the_attacks_find_expressions_that_explode(pattern: str) -> None:
    found = Found("here", pattern, 0, frozenset({"search"}))
    texts = list(attacks(pattern, 0))
    assert any(measure(found, text, LIMIT) >= LIMIT for text in texts)


def test_all_expressions_take_linear_time_on_hostile_texts() -> None:
    slow: list[str] = []
    expressions = [each for each in find() if each.pattern != DYNAMIC]
    assert len(expressions) > 120
    for each in expressions:
        for text in attacks(each.pattern, each.flags):
            if measure(each, text, LIMIT) >= LIMIT:
                slow.append(f"{each.place}: {each.pattern} on {text[:40]!r}…")
                break
    assert slow == []


def test_no_expression_is_made_of_what_others_write() -> None:
    """Of those that are made at run time, each is known and has a reason."""
    made = {each.place.rpartition(":")[0] for each in find() if each.pattern == DYNAMIC}
    assert made == MADE_AT_RUN_TIME.keys()


@pytest.mark.parametrize("name", ["matches", "regex", "regex_replace", "search"])
def test_templates_have_no_expressions_of_their_authors(name: str) -> None:
    for source in (f"{{{{ 'a' | {name}('a') }}}}", f"{{{{ 'a' is {name}('a') }}}}"):
        with pytest.raises(TemplateError):
            compile_template(source)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "(a|a)*b",
        "(x+x+)+y",
        "[ab]*a[ab]{200}$",
        "(a?){200}a{200}b",
        "(.*)(.*)(.*)(.*)(.*)[^z]$",
    ],
)
def test_patterns_in_schemas_of_signals_take_linear_time(pattern: str) -> None:
    schema = {"pattern": pattern, "patternProperties": {pattern: {"type": "null"}}}
    assert find_flaws(schema) == []
    for text in ("a" * 50_000 + "!", "ab" * 25_000, "x" * 50_000, "z" * 50_000):
        begun = process_time()
        find_problems(schema, text)
        find_problems(schema, {text: None})
        assert process_time() - begun < LIMIT


@pytest.mark.parametrize("pattern", [r"^(a+)+\1$", "(?=(a+)+$)b", "((a{99}){99}){99}"])
def test_patterns_that_cannot_be_linear_are_refused(pattern: str) -> None:
    assert find_flaws({"pattern": pattern})
    assert find_flaws({"patternProperties": {pattern: {}}})


@pytest.mark.parametrize("name", FORMATS)
def test_formats_in_schemas_of_signals_take_linear_time(name: str) -> None:
    units = ["a", "1", "a.", "a-", "@", "(", "%41", "xn--", "1:", "\\", '"', "é", "/"]
    units += ["{a}", "(a*)*", "P1Y", "[a", "a{1000}"]
    for unit in units:
        for end in ("", "!", "@a"):
            text = unit * (50_000 // len(unit)) + end
            begun = process_time()
            find_problems({"format": name}, text)
            assert process_time() - begun < LIMIT, f"{unit!r} … {end!r}"


def test_a_hostile_place_to_go_after_signing_in_delays_no_other_request(
    running: Running,
) -> None:
    stranger = Api(running.url, None)
    with Latency(running.url) as latency:
        answer = stranger.get(f"/api/sessions/oidc?next=/{'a' * 60}!")
    assert answer.status == 422
    latency.check()


def test_a_statement_of_comments_delays_no_other_request(
    running: Running, admin: Api
) -> None:
    sql = "/**/" * 60 + "!"
    text = playbook(
        "comments", f"- {{step: start, tool: {{kind: duckdb, command: '{sql}'}}}}"
    )
    with Latency(running.url) as latency:
        document = admin.run(text)
    assert document["error"]["kind"].startswith("duckdb.")
    latency.check()
