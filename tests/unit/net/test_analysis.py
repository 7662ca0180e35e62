"""Every check: a net it speaks about, with the way that leads there, and a good one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.nets import HEADER

from noetl.adapters.tools import BUILTIN
from noetl.dialects import load
from noetl.dsl.model import Playbook
from noetl.net.checks import analyse, find_certain
from noetl.net.finding import Finding
from noetl.net.net import Net, build_net

ReadNet = Callable[[str], Net]

HTTP = "{kind: http, url: 'http://localhost'}"
FAILED = "\"{{ event.name == 'step.failed' }}\""
END = "  - {step: end, tool: {kind: noop}}\n"


def find(net: Net, rule: str) -> list[Finding]:
    return [finding for finding in analyse(net) if finding.rule == rule]


def bad(rule: str, severity: str, witness: str, workflow: str, id: str) -> object:
    return pytest.param(rule, severity, witness, workflow, id=id)


BAD = [
    bad(
        "step-unreachable",
        "warning",
        "lost",
        "  - {step: start, next: {arcs: [{step: end}]}}\n"
        "  - {step: lost, next: {arcs: [{step: end}]}}\n" + END,
        id="no arc leads to a step",
    ),
    bad(
        "step-unreachable",
        "warning",
        "start → off",
        "  - {step: start, next: {arcs: [{step: off, when: false}, {step: end}]}}\n"
        "  - {step: off, next: {arcs: [{step: end}]}}\n" + END,
        id="the only arc is switched off",
    ),
    bad(
        "step-unreachable",
        "warning",
        "start → late",
        "  - {step: start, next: {arcs: [{step: end}, {step: late}]}}\n"
        "  - {step: late, next: {arcs: [{step: end}]}}\n" + END,
        id="the only arc is shadowed",
    ),
    bad(
        "step-unreachable",
        "warning",
        "start → gate → behind",
        "  - {step: start, next: {arcs: [{step: gate}]}}\n"
        "  - {step: gate, spec: {policy: {admit: {rules: [{else: {then: "
        "{allow: false}}}]}}}, next: {arcs: [{step: behind}]}}\n"
        "  - {step: behind, tool: {kind: noop}}\n",
        id="a closed gate stands before it",
    ),
    bad(
        "arc-shadowed",
        "warning",
        "start → work → end",
        "  - {step: start, next: {arcs: [{step: work}]}}\n"
        f"  - {{step: work, tool: {HTTP}, next: {{arcs: "
        f"[{{step: start}}, {{step: end, when: {FAILED}}}]}}}}\n" + END,
        id="a failure arc after an unguarded one",
    ),
    bad(
        "arc-shadowed",
        "warning",
        "start → end",
        "  - {step: start, next: {arcs: [{step: other, when: '{{ ctx.x }}'}, "
        "{step: other}, {step: end}]}}\n"
        "  - {step: other, next: {arcs: [{step: end}]}}\n" + END,
        id="two arcs that take it all together",
    ),
    bad(
        "arc-never-fires",
        "hint",
        "start → end",
        "  - {step: start, tool: {kind: noop}, next: {arcs: "
        f"[{{step: end, when: {FAILED}}}]}}}}\n" + END,
        id="a failure arc of a step that cannot fail",
    ),
    bad(
        "arc-never-fires",
        "warning",
        "start → end",
        f"  - {{step: start, tool: {HTTP}, next: {{arcs: "
        "[{step: end, when: \"{{ event.name == 'loop.done' }}\"}]}}\n" + END,
        id="loop.done of a step without a loop",
    ),
    bad(
        "arc-switched-off",
        "warning",
        "start → end",
        "  - {step: start, next: {arcs: [{step: end, when: '{{ 1 > 2 }}'}]}}\n" + END,
        id="a guard that is constantly false",
    ),
    bad(
        "step-never-admitted",
        "warning",
        "start → end",
        "  - {step: start, next: {arcs: [{step: end}]}}\n"
        "  - {step: end, tool: {kind: noop}, spec: {policy: {admit: {rules: [{when: "
        "'{{ true }}', then: {allow: false}}, {else: {then: {allow: true}}}]}}}}\n",
        id="the first rule denies everybody",
    ),
    bad(
        "step-never-admitted",
        "warning",
        "start → end",
        "  - {step: start, next: {arcs: [{step: end}]}}\n"
        "  - {step: end, tool: {kind: noop}, spec: {policy: {admit: {rules: [{when: "
        "'{{ false }}', then: {allow: true}}]}}}}\n",
        id="a whitelist that no token is on",
    ),
    bad(
        "join-never-fills",
        "error",
        "start → both",
        "  - {step: start, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {from: [end]}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="no source has an arc to the join",
    ),
    bad(
        "join-never-fills",
        "error",
        "start → both",
        "  - {step: start, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {from: [both]}}, next: {arcs: "
        "[{step: both, when: '{{ ctx.x }}'}, {step: end}]}}\n" + END,
        id="the join waits only for itself",
    ),
    bad(
        "join-never-fills",
        "error",
        "start → both",
        "  - {step: start, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: all, from: [after]}}, next: {arcs: "
        "[{step: after}]}}\n"
        "  - {step: after, next: {arcs: [{step: both, when: '{{ ctx.x }}'}, "
        "{step: end}]}}\n" + END,
        id="the only source stands behind the join",
    ),
    bad(
        "join-never-fills",
        "error",
        "start → both",
        "  - {step: start, next: {arcs: [{step: both}]}}\n"
        "  - {step: lost, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: any, from: [lost]}}, "
        "next: {arcs: [{step: end}]}}\n" + END,
        id="the only source is unreachable",
    ),
    bad(
        "join-never-fills",
        "error",
        "start → a → both",
        "  - {step: start, next: {spec: {mode: inclusive}, "
        "arcs: [{step: a}, {step: b}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: 3}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="more tokens than sources",
    ),
    bad(
        "join-never-fills",
        "error",
        "start → choose → a → both",
        "  - {step: start, next: {arcs: [{step: choose}]}}\n"
        "  - {step: choose, next: {arcs: [{step: a, when: '{{ ctx.x }}'}, "
        "{step: b}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: 2}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="two tokens from an exclusive choice",
    ),
    bad(
        "join-never-fills",
        "error",
        "start → work → good → both",
        "  - {step: start, next: {arcs: [{step: work}]}}\n"
        f"  - {{step: work, tool: {HTTP}, next: {{spec: {{mode: inclusive}}, arcs: "
        "[{step: good, when: \"{{ event.name == 'step.done' }}\"}, "
        f"{{step: bad, when: {FAILED}}}]}}}}\n"
        "  - {step: good, next: {arcs: [{step: both}]}}\n"
        "  - {step: bad, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: 2}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="two tokens from success and failure of one step",
    ),
    bad(
        "join-never-fills",
        "error",
        "start → a → both",
        "  - {step: start, next: {arcs: [{step: a, when: '{{ ctx.x }}'}, {step: b}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: 2}}, next: {spec: {mode: inclusive}, "
        "arcs: [{step: start, when: '{{ ctx.again }}'}, {step: end}]}}\n" + END,
        id="two tokens, the second only from behind the join",
    ),
    bad(
        "join-source-silent",
        "warning",
        "start → a → both",
        "  - {step: start, next: {arcs: [{step: a}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {from: [a, start]}}, "
        "next: {arcs: [{step: end}]}}\n" + END,
        id="one source has no arc to the join",
    ),
    bad(
        "join-stranger",
        "warning",
        "start → b → both",
        "  - {step: start, next: {spec: {mode: inclusive}, "
        "arcs: [{step: a}, {step: b}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {from: [a]}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="an arc from a step that the join does not name",
    ),
    bad(
        "join-at-entry",
        "warning",
        "start",
        "  - {step: start, spec: {join: {mode: all}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="the entry is a join",
    ),
    bad(
        "cycle-without-exit",
        "error",
        "start → fetch → fetch",
        "  - {step: start, next: {arcs: [{step: fetch}]}}\n"
        f"  - {{step: fetch, tool: {HTTP}, next: {{arcs: [{{step: fetch}}]}}}}\n",
        id="a step that always goes to itself",
    ),
    bad(
        "cycle-without-exit",
        "error",
        "start → a → b → a",
        "  - {step: start, next: {arcs: [{step: a}]}}\n"
        "  - {step: a, next: {spec: {mode: inclusive}, arcs: [{step: b}, "
        "{step: end, when: '{{ ctx.x }}'}]}}\n"
        "  - {step: b, next: {arcs: [{step: a, when: '{{ ctx.y }}'}, {step: a}]}}\n"
        + END,
        id="an exit that does not stop the cycle",
    ),
    bad(
        "tokens-unbounded",
        "warning",
        "start → fork → a → fork",
        "  - {step: start, next: {arcs: [{step: fork}]}}\n"
        "  - {step: fork, next: {spec: {mode: inclusive}, arcs: [{step: a}, "
        "{step: b}]}}\n"
        "  - {step: a, next: {arcs: [{step: fork, when: '{{ ctx.x }}'}]}}\n"
        "  - {step: b, next: {arcs: [{step: fork, when: '{{ ctx.x }}'}]}}\n",
        id="two tokens that both come back",
    ),
    bad(
        "failure-unhandled",
        "hint",
        "start → work",
        "  - {step: start, next: {arcs: [{step: work}]}}\n"
        f"  - {{step: work, tool: {HTTP}, next: {{arcs: [{{step: end}}]}}}}\n" + END,
        id="only an unguarded arc after a failure",
    ),
    bad(
        "failure-unhandled",
        "hint",
        "start",
        f"  - {{step: start, tool: {HTTP}}}\n",
        id="no arc at all after a failure",
    ),
    bad(
        "no-terminal-step",
        "hint",
        "start → poll",
        "  - {step: start, next: {arcs: [{step: poll}]}}\n"
        "  - {step: poll, next: {arcs: [{step: poll, when: '{{ ctx.x }}'}]}}\n",
        id="it ends only where no guard is true",
    ),
]


@pytest.mark.spec(
    "S-04", "S-05", "S-08", "S-09", "S-51", "S-61", "ADM-04", "NEXT-05", "NEXT-10"
)
@pytest.mark.parametrize(("rule", "severity", "witness", "workflow"), BAD)
def test_speaks(
    net_of: ReadNet, rule: str, severity: str, witness: str, workflow: str
) -> None:
    findings = find(net_of(workflow), rule)

    assert [(found.severity, " → ".join(found.witness)) for found in findings] == [
        (severity, witness)
    ]
    assert findings[0].line > 4
    assert findings[0].path.startswith("workflow[")
    assert findings[0].hint


GOOD = [
    pytest.param(
        "  - {step: start, next: {arcs: [{step: work}]}}\n"
        f"  - {{step: work, tool: {HTTP}, next: {{arcs: "
        f"[{{step: end, when: {FAILED}}}, {{step: end}}]}}}}\n" + END,
        id="a failure arc before the unguarded one",
    ),
    pytest.param(
        "  - {step: start, next: {arcs: [{step: end}]}}\n"
        "  - {step: end, tool: {kind: noop}, spec: {policy: {admit: {rules: [{when: "
        "'{{ ctx.x }}', then: {allow: true}}]}}}}\n",
        id="a gate that may open",
    ),
    pytest.param(
        "  - {step: start, next: {arcs: [{step: a, when: '{{ ctx.x }}'}, {step: b}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: all}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="an all-join never waits for a branch not taken",
    ),
    pytest.param(
        "  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, "
        "{step: b}, {step: c}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: c, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: 2}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="two of three tokens from an inclusive split",
    ),
    pytest.param(
        "  - {step: start, next: {arcs: [{step: a, when: '{{ ctx.x }}'}, {step: b}]}}\n"
        "  - {step: a, next: {spec: {mode: inclusive}, arcs: [{step: both}, {step: b, "
        "when: '{{ ctx.y }}'}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: 2}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="two tokens, the second by way of the first source",
    ),
    pytest.param(
        "  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, "
        "{step: start, when: '{{ ctx.again }}'}, {step: b, when: '{{ ctx.z }}'}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: 2}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="two tokens over two turns of a cycle",
    ),
    pytest.param(
        "  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: choose}, "
        "{step: start, when: '{{ ctx.again }}'}]}}\n"
        "  - {step: choose, next: {arcs: [{step: a, when: '{{ ctx.x }}'}, "
        "{step: b}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: 2}}, next: {arcs: [{step: end}]}}\n"
        + END,
        id="two tokens from a choice that is made on every turn",
    ),
    pytest.param(
        "  - {step: start, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: all}}, next: {arcs: "
        "[{step: both, when: '{{ ctx.x }}'}, {step: end}]}}\n" + END,
        id="a join that may also wait for itself",
    ),
    pytest.param(
        "  - {step: start, next: {arcs: [{step: poll}]}}\n"
        "  - {step: poll, next: {arcs: [{step: poll, when: '{{ ctx.x }}'}, "
        "{step: end}]}}\n" + END,
        id="a cycle with a guarded exit",
    ),
    pytest.param(
        "  - {step: start, next: {arcs: [{step: poll}]}}\n"
        "  - {step: poll, next: {arcs: [{step: gate}]}}\n"
        "  - {step: gate, spec: {policy: {admit: {rules: [{when: '{{ ctx.x }}', then: "
        "{allow: true}}]}}}, next: {arcs: [{step: poll}]}}\n",
        id="a cycle with a gate that may close",
    ),
    pytest.param(
        "  - {step: start, next: {arcs: [{step: fork}]}}\n"
        "  - {step: fork, next: {spec: {mode: inclusive}, arcs: [{step: a}, "
        "{step: b}]}}\n"
        "  - {step: a, next: {arcs: [{step: both}]}}\n"
        "  - {step: b, next: {arcs: [{step: both}]}}\n"
        "  - {step: both, spec: {join: {mode: all}}, next: {arcs: "
        "[{step: fork, when: '{{ ctx.again }}'}, {step: end}]}}\n" + END,
        id="a split in a cycle that a join merges",
    ),
    pytest.param(
        "  - {step: start, next: {arcs: [{step: turn}]}}\n"
        "  - {step: turn, next: {spec: {mode: inclusive}, arcs: [{step: end}, "
        "{step: turn, when: '{{ ctx.x }}'}]}}\n" + END,
        id="a cycle that sends tokens out while it turns",
    ),
    pytest.param(
        f"  - {{step: start, spec: {{policy: {{failure: best_effort}}}}, "
        f"loop: {{in: [1], iterator: x}}, tool: {HTTP}}}\n",
        id="a loop that forgives failed iterations",
    ),
    pytest.param(
        "  - {step: start, tool: {kind: http, url: 'http://localhost', spec: {policy: "
        "{rules: [{else: {then: {do: continue}}}]}}}}\n",
        id="a task whose failure is nothing special",
    ),
]


@pytest.mark.spec("S-04", "S-09", "S-10", "S-51", "LOOP-21", "POL-06")
@pytest.mark.parametrize("workflow", GOOD)
def test_is_silent_about_sound_nets(net_of: ReadNet, workflow: str) -> None:
    speaking = [
        finding
        for finding in analyse(net_of(workflow))
        if finding.rule != "no-terminal-step"
    ]
    assert speaking == []


@pytest.mark.spec("S-75")
@pytest.mark.parametrize("bound", ["deadline: 1h", "limits: {events: 1000}"])
def test_a_cycle_without_exit_may_be_intended_if_the_playbook_bounds_it(
    bound: str,
) -> None:
    cycle = "  - {step: start, next: {arcs: [{step: start}]}}\n"
    endless = load(HEADER + cycle, BUILTIN)
    bounded = load(f"executor: {{spec: {{{bound}}}}}\n" + HEADER + cycle, BUILTIN)

    assert endless.playbook is None
    assert bounded.playbook is not None
    assert [(d.rule, d.severity) for d in bounded.diagnostics if d.code == "S-36"] == [
        ("cycle-without-exit", "hint")
    ]


@pytest.mark.spec("S-75")
def test_validation_says_what_is_certain_about_the_net_in_the_same_words() -> None:
    dead = (
        "  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: end, when: "
        "'{{ false }}'}, {step: end, when: \"{{ event.name == 'loop.done' }}\"}]}}\n"
    ) + END
    for steps in (dead, "  - {step: start, next: {arcs: [{step: start}]}}\n"):
        said = {found.message for found in load(HEADER + steps, BUILTIN).diagnostics}
        assert {found.message for found in find_certain(read(steps))} <= said
        assert {found.message for found in find_certain(read(steps))} <= {
            found.message for found in analyse(build_net(read(steps)))
        }
        assert find_certain(read(steps))


@pytest.mark.spec("S-75")
def test_a_finding_of_a_rule_is_not_repeated_by_the_net() -> None:
    shadowed = "  - {step: start, next: {arcs: [{step: end}, {step: end}]}}\n" + END
    text = (
        "  - {step: start, next: {arcs: [{step: end, when: \"{{ 'no' }}\"}]}}\n" + END
    )

    for steps, rules in ((shadowed, ["shadowed-arc"]), (text, ["text-guard"])):
        found = load(HEADER + steps, BUILTIN).diagnostics
        assert [each.rule for each in found if each.severity == "warning"] == rules


def read(steps: str) -> Playbook:
    playbook = load(HEADER + steps, BUILTIN, net=False).playbook
    assert playbook is not None
    return playbook


@pytest.mark.spec("S-51")
def test_a_deep_net_is_analysed_without_recursion(net_of: ReadNet) -> None:
    size = 1_500  # deeper than the stack of the interpreter
    steps = "".join(
        f"  - {{step: s{n}, tool: {HTTP}, next: {{arcs: [{{step: s{n + 1}}}]}}}}\n"
        for n in range(size)
    )
    net = net_of(steps + f"  - {{step: s{size}, next: {{arcs: [{{step: s0}}]}}}}\n")

    [finding] = find(net, "cycle-without-exit")
    assert finding.witness[:3] == ("s0", "s1", "s2")
    assert finding.witness[-2:] == (f"s{size}", "s0")
    assert "…" in finding.witness
    assert net.reaches("s1", "s0")
    assert not net.reaches("s1", "s0", avoiding="s2")
