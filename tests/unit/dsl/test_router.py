"""Routers: defaults, modes and arcs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl import Playbook
from noetl.dsl.canonical import canonical, digest

Accept = Callable[..., Playbook]


def route(accept: Accept, router: str) -> Playbook:
    return accept(
        f"- step: start\n  next: {router}\n"
        "- step: a\n  tool: {kind: noop}\n"
        "- step: b\n  tool: {kind: noop}\n"
        "- step: hub\n  next: {arcs: [{step: a, when: true}, {step: b, when: true}]}\n"
    )


@pytest.mark.spec("C-19", "NEXT-01", "NEXT-02", "SRV-07")
@pytest.mark.parametrize(
    "router",
    [
        pytest.param("{arcs: [{step: a}]}", id="no spec"),
        pytest.param("{spec: {}, arcs: [{step: a}]}", id="an empty spec"),
        pytest.param("{arcs: [{step: a}], spec: {mode: exclusive}}", id="all of it"),
    ],
)
def test_the_router_is_always_whole(accept: Accept, router: str) -> None:
    playbook = route(accept, router)
    assert canonical(playbook)["workflow"][0]["next"] == {
        "spec": {"mode": "exclusive"},
        "arcs": [{"step": "a"}],
    }
    assert digest(playbook) == digest(route(accept, "{arcs: [{step: a}]}"))


@pytest.mark.spec("NEXT-02")
@pytest.mark.parametrize("mode", ["exclusive", "inclusive"])
def test_the_mode(accept: Accept, mode: str) -> None:
    router = route(accept, f"{{spec: {{mode: {mode}}}, arcs: [{{step: a}}]}}")
    assert router.workflow[0].next is not None
    assert router.workflow[0].next.mode == mode


@pytest.mark.spec("NEXT-04", "ROOT-09")
def test_an_arc_and_its_defaults(accept: Accept) -> None:
    playbook = route(
        accept,
        "{spec: {mode: inclusive}, arcs: [{step: a}, "
        "{step: b, when: \"{{ event.name == 'step.done' }}\", "
        'args: {n: "{{ 1 + 1 }}"}, spec: {reserved: 1}}]}',
    )
    router = playbook.workflow[0].next
    assert router is not None
    bare, full = router.arcs
    assert (bare.step, bare.when, bare.args) == ("a", None, None)
    assert full.step == "b"
    assert full.when is not None
    assert full.when.holds({"event": {"name": "step.done"}})
    assert not full.when.holds({"event": {"name": "step.failed"}})
    assert full.args is not None
    assert full.args.render({}) == {"n": 2}


@pytest.mark.spec("NEXT-04", "S-29")
@pytest.mark.parametrize("truth", [True, False])
def test_a_guard_may_be_a_boolean(accept: Accept, truth: bool) -> None:
    playbook = route(accept, f"{{arcs: [{{step: a, when: {str(truth).lower()}}}]}}")
    router = playbook.workflow[0].next
    assert router is not None
    assert router.arcs[0].when is not None
    assert router.arcs[0].when.holds({}) is truth


@pytest.mark.spec("NEXT-03")
def test_reserved_places_have_no_effect(accept: Accept) -> None:
    plain = route(accept, "{arcs: [{step: a}]}").workflow[0].next
    reserved = (
        route(
            accept,
            "{spec: {policy: {x: 1}}, arcs: [{step: a, spec: {y: 2}}]}",
        )
        .workflow[0]
        .next
    )
    assert plain is not None
    assert reserved is not None
    assert reserved.mode == plain.mode
    assert [(a.step, a.when, a.args) for a in reserved.arcs] == [
        (a.step, a.when, a.args) for a in plain.arcs
    ]


@pytest.mark.spec("NEXT-01", "VAL-13", "C-19", "NEXT-04", "VAL-21")
@pytest.mark.parametrize(
    ("router", "code", "at"),
    [
        pytest.param("a", "VAL-13", "a\n", id="a bare name"),
        pytest.param("[{step: a}]", "VAL-13", "[{step", id="a list"),
        pytest.param("{to: [{step: a}]}", "VAL-13", "to:", id="to instead of arcs"),
        pytest.param("{}", "VAL-13", "{}", id="no arcs"),
        pytest.param("{arcs: []}", "VAL-13", "[]", id="empty arcs"),
        pytest.param("{arcs: {step: a}}", "VAL-13", "{step", id="arcs as a mapping"),
        pytest.param("{arcs: [a]}", "NEXT-04", "a]", id="an arc as a name"),
        pytest.param("{arcs: [{when: true}]}", "NEXT-04", "{when", id="no step"),
        pytest.param("{arcs: [{step: 5}]}", "NEXT-04", "5}", id="a number as step"),
        pytest.param("{arcs: [{step: a, args: 5}]}", "NEXT-04", "5}", id="args"),
        pytest.param("{arcs: [{step: a, when: 5}]}", "NEXT-04", "5}", id="a guard"),
        pytest.param(
            "{spec: {mode: both}, arcs: [{step: a}]}", "VAL-21", "both", id="a mode"
        ),
        pytest.param("{spec: 5, arcs: [{step: a}]}", "NEXT-01", "5,", id="a spec"),
    ],
)
def test_invalid_routers(
    document: Callable[..., str],
    say: Callable[..., list[tuple[str, str, int, int]]],
    router: str,
    code: str,
    at: str,
) -> None:
    text = document(
        f"- step: start\n  next: {router}\n- step: a\n  tool: {{kind: noop}}\n"
    )
    errors = [found for found in say(text) if found[1] == "error"]
    [(found, _, line, column)] = errors
    assert found == code
    assert (text.splitlines(keepends=True)[line - 1])[column - 1 :].startswith(at)
