"""The form of a playbook's inputs, declared or inferred."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from noetl import load
from noetl.dsl.input_form import MAX_FIELDS, InputForm, make_form

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
FLOW = "workflow: [{step: start, tool: {kind: noop}}]\n"


def form_of(workload: str = "", inputs: str = "") -> InputForm:
    """The form of a playbook with this workload and these declared inputs."""
    text = f"{HEAD}metadata:\n  name: t\n  path: tests/t\n  version: '7'\n"
    if inputs:
        text += "  inputs:\n" + indent(dedent(inputs).strip("\n"), "    ") + "\n"
    if workload:
        text += "workload:\n" + indent(dedent(workload).strip("\n"), "  ") + "\n"
    loaded = load(text + FLOW)
    assert loaded.playbook is not None, loaded.diagnostics
    return make_form(loaded.playbook, text + FLOW)


def test_types_follow_the_defaults() -> None:
    form = form_of("""
        text: hello
        number: 1
        part: 0.5
        yes_or_no: false
        names: [a, b]
        mixed: [1, a]
        nothing: null
        place: {street: Elm, number: 3}
    """)

    assert form.fields["properties"] == {
        "text": {"type": "string", "default": "hello"},
        "number": {"type": "integer", "default": 1},
        "part": {"type": "number", "default": 0.5},
        "yes_or_no": {"type": "boolean", "default": False},
        "names": {"type": "array", "default": ["a", "b"], "items": {"type": "string"}},
        "mixed": {"type": "array", "default": [1, "a"]},
        "nothing": {"default": None},
        "place": {
            "type": "object",
            "properties": {
                "street": {"type": "string", "default": "Elm"},
                "number": {"type": "integer", "default": 3},
            },
        },
    }
    assert form.order == [*form.fields["properties"]]
    assert (form.path, form.version, form.required) == ("tests/t", "7", [])


def test_declared_inputs_come_with_the_defaults_of_the_workload() -> None:
    form = form_of(
        "limit: 10\nother: 1",
        """
        type: object
        required: [region]
        properties:
          region: {enum: [eu, us]}
          limit: {type: integer, default: 5}
        """,
    )

    assert form.fields["properties"] == {
        "region": {"enum": ["eu", "us"]},
        "limit": {"type": "integer", "default": 10},
    }
    assert form.required == ["region"]


def test_a_secret_input_has_no_default() -> None:
    form = form_of(
        inputs="""
        type: object
        properties: {token: {type: string, secret: true, default: canary}}
        """
    )

    assert "canary" not in str(form)


@pytest.mark.parametrize("value", ["'{{ now }}'", "{a: ['{{ x }}']}"])
def test_a_template_is_described_and_no_default(value: str) -> None:
    form = form_of(f"list: [{value}]\nplain: 1")

    field = form.fields["properties"]["list"]
    assert "default" not in field
    assert field["description"].startswith("by default [")


def test_comments_belong_to_the_inputs_they_stand_at() -> None:
    form = form_of("""
        order: 11  # the number of the order
        # Where it is sent.
        # Two letters.
        region: eu
        quoted: "a # b"
        hash: a#b

        #not mine

        last: 1
    """)

    assert form.comments == {
        "order": "the number of the order",
        "region": "Where it is sent. Two letters.",
    }


def test_a_comment_at_several_inputs_is_of_none() -> None:
    form = form_of("")
    text = f"{HEAD}metadata: {{name: t, path: t}}\nworkload: {{a: 1, b: 2}}  # both\n"
    loaded = load(text + FLOW)
    assert loaded.playbook is not None

    assert make_form(loaded.playbook, text + FLOW).comments == {}
    assert form.comments == {}


def test_secrets_in_comments_are_masked() -> None:
    form = form_of("url: x  # password=hunter2-hunter2")

    assert "hunter2" not in str(form)


def test_a_large_workload_is_bounded() -> None:
    form = form_of("\n".join(f"input{n}: {n}  # {'x' * 500}" for n in range(600)))

    assert len(form.order) == MAX_FIELDS
    assert max(len(each) for each in form.comments.values()) < 400
