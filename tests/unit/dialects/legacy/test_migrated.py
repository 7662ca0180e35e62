"""Playbooks of the dialect in the language of today: text, layout and what is said.

That they do the same is seen by ``execute``, for every playbook that it runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent, indent

import pytest

from noetl import load
from noetl.adapters.tools import BUILTIN
from noetl.dialects.migration import Migrated, migrate, spoken
from noetl.dsl.canonical import canonical

ROOT = Path(__file__).parents[4]
PLAYBOOKS = sorted((Path(__file__).parent / "playbooks").glob("*.yaml"))
CLASSIC = sorted((ROOT / "examples" / "classic").glob("*.yaml"))
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}  # name\n"
SWITCH = "executor: {spec: {extensions: [legacy]}}\n"
LEGACY = frozenset({"legacy"})

pytestmark = pytest.mark.spec("S-01")


def document(steps: str) -> str:
    return HEAD + "workflow:\n" + indent(dedent(steps), "  ")


def done(text: str, extensions: frozenset[str] = LEGACY) -> Migrated:
    return migrate(text, BUILTIN, extensions)


def becomes(before: str, after: str) -> None:
    found = done(document(before))

    assert found.left == ()
    assert found.text == document(after)
    assert load(found.text).valid
    assert done(found.text) == found


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_whole_playbook_needs_the_extension_no_more(path: Path) -> None:
    text = path.read_text()
    found = done(text, spoken(text, BUILTIN, frozenset()))
    assert found.text is not None
    before, after = load(text).playbook, load(found.text)
    assert before is not None

    assert found.left == ()
    assert "legacy]" not in found.text
    assert after.playbook is not None, after.diagnostics
    assert {**canonical(after.playbook), "executor": None} == {
        **canonical(before),
        "executor": None,
    }
    again = done(found.text, spoken(found.text, BUILTIN, frozenset()))
    assert again == Migrated(found.text, ())


@pytest.mark.parametrize("path", CLASSIC, ids=lambda path: path.stem)
def test_an_example_of_the_other_dialect_migrates_or_says_why_not(path: Path) -> None:
    text = path.read_text()
    found = done(text, spoken(text, BUILTIN, frozenset()))
    assert found.text is not None
    lines = found.text.splitlines()

    assert found.left or load(found.text).valid
    assert all(each.hint and each.message for each in found.left)
    assert all(lines[each.line - 1].strip() for each in found.left)
    assert ("classic" in found.text.partition("workflow:")[0]) == bool(found.left)


def test_names_are_changed_where_they_stand() -> None:
    becomes(
        """
        - step: each   # of them
          loop:
            collection: [1, 2]   # two
            element: n
            spec: {mode: parallel, batch_size: 2}
          tool:
            - one: {kind: noop}
          next:
            arcs:
              - step: last   # the end
                with: {a: 1}
        - {step: last, loop: {collection: [3], element: m}, tool: [{t: {kind: noop}}]}
        """,
        """
        - step: each   # of them
          loop:
            in: [1, 2]   # two
            iterator: n
            spec: {mode: parallel, max_in_flight: 2}
          tool:
            - one: {kind: noop}
          next:
            arcs:
              - step: last   # the end
                args: {a: 1}
        - {step: last, loop: {in: [3], iterator: m}, tool: [{t: {kind: noop}}]}
        """,
    )


def test_a_list_of_targets_becomes_arcs() -> None:
    becomes(
        """
        - step: start
          tool: {kind: noop}  # nothing
          next:
          - step: left   # here
          - step: right
            when: "{{ 1 > 2 }}"

        - step: left
          tool: {kind: noop}
          next: [{step: right}]
        - step: right
          tool: {kind: noop}
        """,
        """
        # here
        - step: start
          tool: {kind: noop}  # nothing
          next:
            spec:
              mode: inclusive
            arcs:
              - step: left
              - step: right
                when: "{{ 1 > 2 }}"

        - step: left
          tool: {kind: noop}
          next: {spec: {mode: inclusive}, arcs: [{step: right}]}
        - step: right
          tool: {kind: noop}
        """,
    )


def test_a_task_that_stays_keeps_its_lines() -> None:
    becomes(
        """
        # Ask first.
        - step: ask   # politely
          desc:   Three   spaces.
          tool:
            kind: http   # a GET
            url: https://api.example   # not a '#' in text
            spec: {timeout: 3}
          # What comes of it:
          retry:
            max_attempts: 4   # it is slow

        # Then rest.
        - step:   rest
          tool:   { kind: noop }   # done
        """,
        """
        # Ask first.
        # it is slow
        - step: ask   # politely
          desc:   Three   spaces.
          tool:
            kind: http   # a GET
            url: https://api.example   # not a '#' in text
            spec:
              timeout: 3
              policy:
                rules:
                  - when: "{{ outcome.status == 'error' }}"
                    then: {do: retry, attempts: 4}
                  - when: "{{ outcome.status == 'error' }}"
                    then: {do: fail}
                  - else:
                      then: {do: break}
            name: call
          # What comes of it:

        # Then rest.
        - step:   rest
          tool:   { kind: noop }   # done
        """,
    )


def test_what_is_written_anew_leaves_its_comments_above_the_step() -> None:
    becomes(
        """
        # The first
        - step: start   # here
          case:   # one
            # two
            - when: "{{ true }}"   # three
              then:
                - wait: {tool: {kind: wait, for: 0}}   # four
                - tell:
                    tool:
                      kind: noop
                      result: |   # five
                        # text
                        of two lines

        # The last
        - {step: last, tool: {kind: noop}}   # six
        """,
        """
        # The first
        # one
        # two
        # three
        # four
        # five
        - step: start   # here
          tool:
            - step__case:
                kind: choose
                when:
                  case_0: "{{ true }}"
                mode: exclusive
                event: {name: step.started, data: {}}
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.status == 'error' }}"
                        then: {do: fail}
                      - when: "{{ 'case_0' in outcome.choose.matched }}"
                        then: {do: continue}
                      - else:
                          then: {do: break}
            - wait: {kind: wait, for: 0}
            - tell:
                kind: noop
                result: |
                  # text
                  of two lines

        # The last
        - {step: last, tool: {kind: noop}}   # six
        """,
    )


def test_what_is_added_below_text_of_lines_goes_before_what_is_replaced() -> None:
    becomes(
        """
        - step: a
          tool:
            kind: python
            code: |
              result = 1
          retry: {max_attempts: 2}
          # then
          next: b   # the last one
        - step: b
          tool: {kind: noop}
        """,
        """
        # the last one
        - step: a
          tool:
            kind: python
            code: |
              result = 1
            name: call
            spec:
              policy:
                rules:
                  - when: "{{ outcome.status == 'error' }}"
                    then: {do: retry, attempts: 2}
                  - when: "{{ outcome.status == 'error' }}"
                    then: {do: fail}
                  - else:
                      then: {do: break}
          # then
          next:
            spec:
              mode: inclusive
            arcs:
              - step: b
        - step: b
          tool: {kind: noop}
        """,
    )


def test_ends_of_lines_stay() -> None:
    text = PLAYBOOKS[0].read_text()
    found, other = done(text), done(text.replace("\n", "\r\n"))

    assert found.text is not None
    assert other == Migrated(found.text.replace("\n", "\r\n"), ())


def test_code_stays_readable() -> None:
    found = done(
        document(
            """
            - step: start
              retry: {max_attempts: 2}
              tool:
                - {first: {kind: noop}}
                - kind: python
                  code: |
                    # no comment of the playbook's

                    result = {"a": 1}
              case: []
            """
        )
    )

    assert found.text is not None
    assert (
        "          code: |\n"
        "            # no comment of the playbook's\n"
        "\n"
        '            result = {"a": 1}\n'
    ) in found.text


@pytest.mark.parametrize("code", ["  # a\na = 1\n", "a = 1\n\n\n", "\n\na = 1\n"])
def test_code_of_any_layout_is_the_same_code(code: str) -> None:
    tool = f"{{kind: python, code: {json.dumps(code)}}}"
    found = done(document(f"- {{step: a, retry: {{max_attempts: 2}}, tool: {tool}}}"))
    assert found.text is not None
    after = load(found.text).playbook
    assert after is not None

    assert found.left == ()
    assert after.workflow[0].tasks[0].literals["code"] == code


def test_shared_values_move_below_the_workload() -> None:
    found = done(
        HEAD
        + "vars:  # shared\n  a: 1\nworkload: {b: 2}\n"
        + 'workflow:\n  - {step: s, tool: {kind: noop, result: "{{ vars.a }}"}}\n'
    )

    assert found.left == ()
    assert found.text is not None
    assert found.text.startswith(HEAD + "# shared\nworkload: {b: 2, vars: {a: 1}}\n")


def test_what_shares_text_is_left_with_its_line_and_a_way_out() -> None:
    text = SWITCH + document(
        """
        - step: start
          tool: &it {kind: noop}
          retry: {max_attempts: 2}
        - step: last
          tool: *it
        """
    )
    found = done(text)
    anchor = found.left[-1]

    assert found.text == text
    assert [each.line for each in found.left] == [9, 8]
    assert (anchor.line, anchor.column) == (8, 11)
    assert "share text by anchors" in anchor.message
    assert anchor.hint == "write it out, and migrate again"


def test_what_can_be_done_beside_it_is_done() -> None:
    steps = """
        - step: start
          tool: &it {kind: noop}
          retry: {max_attempts: 2}
          next: {arcs: [{step: middle}]}
        - step: middle
          loop: {collection: [1], element: n}
          tool: [{one: {kind: noop}}]
          next: {to: [{step: last}]}
        - step: last
          tool: *it
        """
    text = SWITCH + document(steps)
    found = done(text)
    assert found.text is not None

    assert found.text == text.replace("collection:", "in:").replace(
        "element:", "iterator:"
    ).replace("{to: [{step: last}]}", "{spec: {mode: inclusive}, arcs: [{step: last}]}")
    assert [each.line for each in found.left] == [9, 8]
    assert done(found.text) == found


def test_other_extensions_and_what_needs_them_stay() -> None:
    text = (
        HEAD
        + "executor:\n  spec:\n    extensions: [team, legacy, classic]  # ours\n"
        + "team: orders\n"
        + "workflow:\n"
        + "  - step: start\n"
        + "    tool: {kind: python, code: return 1}\n"
        + "    next: [{step: last}]\n"
        + "  - step: last\n"
        + "    tool: {kind: noop}\n"
    )
    found = done(text, frozenset())

    assert found.text == text.replace("team, legacy, classic", "team, classic").replace(
        "[{step: last}]", "{spec: {mode: inclusive}, arcs: [{step: last}]}"
    )
    assert [each.line for each in found.left] == [10]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("- {step: a, tool: {kind: noop}}", set()),
        ("- {step: a, tool: {kind: noop}, retry: {max_attempts: 2}}", {"legacy"}),
        ("- {step: a, tool: {kind: shell, cmds: ls}}", {"classic"}),
        (
            "- {step: a, tool: {kind: shell, cmds: ls}, next: [{step: b}]}\n"
            "- {step: b, tool: {kind: noop}}",
            {"classic"},
        ),
        (
            "- {step: a, tool: {kind: shell, cmds: ls}, retry: {max_attempts: 2}}",
            {"legacy", "classic"},
        ),
        (
            "- {step: a, tool: {kind: noop}, retry: {max_attempts: 2},"
            " next: {arcs: [{step: b}]}}\n"
            "- {step: b, tool: {kind: noop, result: '{{ a.data }}'}}",
            {"legacy"},
        ),
    ],
)
def test_the_dialect_is_known_by_its_forms(steps: str, expected: set[str]) -> None:
    assert spoken(document(steps), BUILTIN, frozenset()) == expected


def test_a_playbook_that_names_its_dialect_means_that_one() -> None:
    steps = (
        "- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}\n"
        "- {step: b, tool: {kind: noop, result: '{{ a }}'}}"
    )

    assert spoken(document(steps), BUILTIN, frozenset()) == {"classic"}
    assert spoken(SWITCH + document(steps), BUILTIN, frozenset()) == {"legacy"}
