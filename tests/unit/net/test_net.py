"""The net: outcomes, firing, reachability."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.net.net import Firing, Net
from noetl.net.step_outcomes import Outcome

ReadNet = Callable[[str], Net]

GATE = "tool: {kind: noop}, spec: {policy: {admit: {rules: "
HTTP = "{kind: http, url: 'http://localhost'}"


@pytest.mark.spec("S-02")
def test_the_entry_is_start_wherever_it_stands(net_of: ReadNet) -> None:
    net = net_of("""
  - {step: a, tool: {kind: noop}}
  - {step: start, next: {arcs: [{step: a}]}}
""")
    assert net.entry == "start"


@pytest.mark.spec("S-02")
def test_the_entry_is_else_the_first_step(net_of: ReadNet) -> None:
    net = net_of("""
  - {step: a, next: {arcs: [{step: b}]}}
  - {step: b, tool: {kind: noop}}
""")
    assert net.entry == "a"


@pytest.mark.parametrize(
    ("step", "outcomes"),
    [
        pytest.param(
            "next: {arcs: [{step: start}]}", {"done"}, id="pure routing cannot fail"
        ),
        pytest.param("tool: {kind: noop}", {"done"}, id="noop cannot fail"),
        pytest.param(f"tool: {HTTP}", {"done", "failed"}, id="a call can"),
        pytest.param(
            "tool: {kind: noop, result: '{{ ctx.x }}'}",
            {"done", "failed"},
            id="a template can be undefined",
        ),
        pytest.param(
            "loop: {in: [1], iterator: x}, tool: {kind: noop}",
            {"done"},
            id="a literal list is a list",
        ),
        pytest.param(
            "loop: {in: '{{ ctx.x }}', iterator: x}, tool: {kind: noop}",
            {"done", "failed"},
            id="a template may yield no list",
        ),
        pytest.param(
            GATE + "[{when: '{{ ctx.x }}', then: {allow: true}}]}}}",
            {"done", "skipped"},
            id="a gate may deny",
        ),
        pytest.param(
            GATE + "[{else: {then: {allow: false}}}]}}}",
            {"skipped"},
            id="a closed gate always does",
        ),
        pytest.param(
            GATE + "[{when: '{{ true }}', then: {allow: true}}, "
            "{else: {then: {allow: false}}}]}}}",
            {"done"},
            id="an open gate never does",
        ),
    ],
)
@pytest.mark.spec("STEP-04", "ADM-04", "ADM-05", "S-26")
def test_outcomes(net_of: ReadNet, step: str, outcomes: set[Outcome]) -> None:
    net = net_of(f"  - {{step: start, {step}}}\n")

    assert net.outcomes("start") == outcomes


@pytest.mark.parametrize(
    ("router", "firing"),
    [
        pytest.param(
            "arcs: [{step: a}, {step: b}]",
            {"done": ["always", "never"], "failed": ["always", "never"]},
            id="exclusive: the first arc takes it all",
        ),
        pytest.param(
            "spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]",
            {"done": ["always", "always"], "failed": ["always", "always"]},
            id="inclusive: all that match",
        ),
        pytest.param(
            "arcs: [{step: a, when: '{{ ctx.x }}'}, {step: b}]",
            {"done": ["maybe", "maybe"], "failed": ["maybe", "maybe"]},
            id="after a maybe, maybe",
        ),
        pytest.param(
            "arcs: [{step: a, when: \"{{ event.name == 'step.failed' }}\"}, {step: b}]",
            {"done": ["never", "always"], "failed": ["always", "never"]},
            id="an arc for the failure, one for the rest",
        ),
    ],
)
@pytest.mark.spec("NEXT-05", "NEXT-06", "NEXT-10")
def test_firing(
    net_of: ReadNet, router: str, firing: dict[Outcome, list[Firing]]
) -> None:
    net = net_of(f"""
  - {{step: start, tool: {HTTP}, next: {{{router}}}}}
  - {{step: a, tool: {{kind: noop}}}}
  - {{step: b, tool: {{kind: noop}}}}
""")
    arcs = net.arcs_from("start")
    for outcome, expected in firing.items():
        assert [net.firing(arc, outcome) for arc in arcs] == expected


@pytest.mark.spec("C-11", "NEXT-07")
def test_a_loop_asks_about_step_done_only_if_loop_done_fired_nothing(
    net_of: ReadNet,
) -> None:
    net = net_of("""
  - step: start
    loop: {in: [1], iterator: x}
    tool: {kind: noop}
    next:
      arcs:
        - {step: a, when: "{{ event.name == 'loop.done' and ctx.x }}"}
        - {step: b, when: "{{ event.name == 'step.done' }}"}
  - {step: a, loop: {in: [1], iterator: x}, tool: {kind: noop}, next: {arcs: [
      {step: b}, {step: a, when: "{{ event.name == 'step.done' }}"}]}}
  - {step: b, tool: {kind: noop}}
""")
    first, second = net.arcs_from("start")
    assert net.firing(first, "done") == net.firing(second, "done") == "maybe"
    always, never = net.arcs_from("a")
    assert net.firing(always, "done") == "always"
    assert net.firing(never, "done") == "never"


DIAMOND = """
  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
  - {step: a, next: {arcs: [{step: both}]}}
  - {step: b, next: {arcs: [{step: both}]}}
  - {step: both, spec: {join: {mode: all}}, next: {arcs: [
      {step: start, when: "{{ ctx.again }}"}, {step: both, when: "{{ ctx.x }}"},
      {step: end}]}}
  - {step: end, tool: {kind: noop}}
"""


@pytest.mark.parametrize(
    ("source", "token_at", "delivers"),
    [
        pytest.param("b", "b", True, id="a run of the source itself"),
        pytest.param("b", "start", True, id="a token before it"),
        pytest.param("b", "a", False, id="a token that only passes the join"),
        pytest.param("b", "both", True, id="a run of the join that goes back"),
        pytest.param("b", "end", False, id="a token behind it"),
        pytest.param("end", "end", False, id="a step without an arc to the join"),
        pytest.param("both", "start", False, id="nobody starts the join for itself"),
        pytest.param("both", "both", True, id="but a run of it may deliver to it"),
    ],
)
@pytest.mark.spec("S-04")
def test_who_can_still_deliver(
    net_of: ReadNet, source: str, token_at: str, delivers: bool
) -> None:
    assert net_of(DIAMOND).can_deliver(source, "both", token_at) is delivers


@pytest.mark.spec("S-04")
def test_a_join_waits_for_every_arc_unless_it_names_its_sources(
    net_of: ReadNet,
) -> None:
    assert net_of(DIAMOND).sources("both") == ("a", "b", "both")
    named = DIAMOND.replace("{mode: all}", "{mode: all, from: [b, a]}")
    assert net_of(named).sources("both") == ("b", "a")


@pytest.mark.spec("ROOT-09", "STEP-05")
def test_arcs_form_a_directed_graph(net_of: ReadNet) -> None:
    net = net_of(DIAMOND)

    assert net.successors("both") == ("start", "both", "end")
    assert net.predecessors("both") == ("a", "b", "both")
    assert net.successors("end") == ()
    assert net.reaches("a", "b")
    assert not net.reaches("a", "b", avoiding="both")
    assert not net.reaches("end", "start")
