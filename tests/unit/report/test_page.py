"""The page says what the log holds, and nothing in the log can change the page."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec
import pytest

from noetl import load
from noetl.engine.simulate import Simulation
from noetl.engine.steps.completion import cancel
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call
from noetl.report.fold import Record
from noetl.report.page import write_page

from .conftest import HEAD, Page, simulate

PageOf = Callable[..., Page]

SHOP = """
- step: fetch
  desc: Asks the shop.
  tool:
    - ask:
        kind: http
        url: http://shop
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and _attempt < 3 }}"
                then: {do: retry, attempts: 3, delay: 2}
              - when: "{{ outcome.status == 'error' }}"
                then: {do: fail}
              - else: {then: {do: continue, set_ctx: {asked: true}}}
  next:
    arcs:
      - {step: store, when: "{{ event.name == 'step.done' and ctx.asked }}"}
      - {step: complain, when: "{{ event.name == 'step.failed' }}"}
- step: store
  spec: {policy: {admit: {rules: [{when: "{{ ctx.asked }}", then: {allow: false}}, {else: {then: {allow: true}}}]}}}
  tool: {kind: noop}
- step: complain
  tool: {kind: noop}
"""  # noqa: E501

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "</pre></details><iframe src=javascript:alert(1)>",
    "<!--",
    "]]><svg onload=alert(1)>",
    "&lt;b&gt;",
    "\u202egnp.exe\x00\x1b[31m",
]


def flaky(call: Call) -> Outcome:
    if call.task.label == "ask" and call.attempt < 3:
        return Outcome.failed("http.server", "503 from the shop")
    return Outcome.ok({"articles": 3})


def test_it_says_what_ran_and_how_it_ended(page_of: PageOf) -> None:
    page = page_of(SHOP, flaky, root="workload: {region: eu}\n")

    assert "t completed" in page.text
    assert '"region" : "eu"' in page.text
    assert '"asked" : true' in page.text
    assert "attempt 3" in page.text


def test_it_says_why(page_of: PageOf) -> None:
    """Which rule matched, which guard was true, which was not, and where it stands."""
    page = page_of(SHOP, flaky)

    assert "→ retry in 2 s {{ outcome.status == 'error' and _attempt < 3 }} rule 1" in (
        page.text
    )
    assert "→ continue rule 3, else line 19" in page.text
    assert (
        "→ store fired {{ event.name == 'step.done' and ctx.asked }} the guard is true"
        in page.text
    )
    assert "→ complain did not fire {{ event.name == 'step.failed' }}" in page.text
    assert "gate denied {{ ctx.asked }}" in page.text
    lines = [a for a in page.all("a") if (a["href"] or "").startswith("#line-")]
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert lines
    assert {(a["href"] or "")[1:] for a in lines} <= ids


def test_a_failure_says_what_to_do(page_of: PageOf) -> None:
    page = page_of(
        "- {step: a, tool: {kind: http, url: http://x}}",
        lambda call: Outcome.failed("timeout", "no answer"),
    )
    assert "timeout in step a" in page.text
    assert "What to do: Raise the timeout" in page.text


def test_a_failure_names_the_commands_that_follow(page_of: PageOf) -> None:
    child = {"error": {"message": "no"}, "execution_id": "0192-child"}

    def fail(call: Call) -> Outcome:
        return Outcome.failed("playbook.failed", "it failed", details=child)

    page = page_of("- {step: a, tool: {kind: shell, command: x}}", fail)
    fine = page_of("- {step: a, tool: {kind: noop}}")

    assert "Run again what failed: noetl retry " in page.text
    assert "The child that failed: noetl show 0192-child" in page.text
    assert "noetl retry" not in fine.text
    assert "dashed: the task waits" in fine.text


def test_every_step_of_the_graph_leads_to_its_detail(page_of: PageOf) -> None:
    page = page_of(SHOP, flaky)
    targets = [a["href"] for a in page.all("a") if a.get("aria-label")]

    assert targets == ["#step-1", "#step-2", "#step-3"]
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert {"step-1", "step-2", "step-3"} <= ids


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_tool_returned_stays_text(page_of: PageOf, text: str) -> None:
    calm, evil = (
        page_of(
            '- {step: a, tool: {kind: noop}, next: {arcs: [{step: b, args: {x: "{{ '
            'event.payload.result }}"}}]}}\n- {step: b, tool: {kind: noop}}',
            lambda call, given=given: Outcome.ok({"value": given, given: 1}),
        )
        for given in ("calm", text)
    )

    assert [tag for tag, _ in evil.elements] == [tag for tag, _ in calm.elements]
    assert not any(name.startswith("on") for _, a in evil.elements for name in a)
    assert "\x1b" not in evil.source
    assert "\u202e" not in evil.source


def test_only_what_we_wrote_may_run_or_style(page_of: PageOf) -> None:
    page = page_of(SHOP, flaky)
    [policy] = [
        meta["content"] or ""
        for meta in page.all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    scripts = re.findall(r"<script>(.*?)</script>", page.source, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page.source, re.DOTALL)

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (len(scripts), len(styles)) == (1, 2)
    for content in (*scripts, *styles):
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_nothing_is_fetched_and_no_style_stands_in_an_attribute(
    page_of: PageOf,
) -> None:
    page = page_of(SHOP, flaky)

    for tag, attributes in page.elements:
        assert "src" not in attributes, tag
        assert "style" not in attributes, tag
        assert (attributes.get("href") or "#").startswith("#"), tag
    assert "url(http" not in page.source
    assert "@import" not in page.source


def test_a_long_log_makes_a_page_of_bounded_size() -> None:
    """Four times the iterations, each with a large result: hardly a larger page."""
    sizes = []
    for count in (500, 2_000):
        simulation, text = simulate(
            f'- step: a\n  loop: {{in: "{{{{ range({count}) }}}}", iterator: i}}\n'
            "  tool: {kind: noop}",
            lambda call: Outcome.ok("x" * 3_000),
        )
        record = Record().take(simulation.log)
        page = write_page(record, simulation.playbook, text, version="0")
        sizes.append(len(page))
        assert f"of {len(simulation.log):,} events" in page

    assert sizes[1] < 1.02 * sizes[0] < 6_000_000


def test_a_page_is_written_without_the_playbook() -> None:
    simulation, _ = simulate(SHOP, flaky)
    page = Page(write_page(Record().take(simulation.log), None, None, version="0"))

    assert "completed" in page.text
    assert "→ store fired" in page.text


def test_every_prefix_of_a_log_makes_a_page() -> None:
    """A run that is under way, paused or was killed can be looked at."""
    simulation, text = simulate(SHOP, flaky)
    for end in range(1, len(simulation.log) + 1):
        record = Record().take(simulation.log[:end])
        assert write_page(record, simulation.playbook, text, version="0")


def test_it_says_what_an_execution_waits_for(page_of: PageOf) -> None:
    page = page_of(
        """
        - step: start
          tool: {kind: noop}
          next: {spec: {mode: inclusive}, arcs: [{step: boss}, {step: pay}]}
        - step: boss
          tool: {kind: wait, signal: approved}
          next: {arcs: [{step: pay}]}
        - step: pay
          spec: {join: {mode: all}}
          tool: {kind: noop}
        """
    )

    assert "t waiting" in page.text
    assert "Step boss waits for signal approved" in page.text
    assert "noetl signal sim approved" in page.text
    assert "1 token waiting to be joined" in page.text


def test_large_values_are_shown_as_references(page_of: PageOf) -> None:
    page = page_of(
        "- {step: a, tool: {kind: noop}}", lambda call: Outcome.ok(["x" * 200_000])
    )

    assert "(a list of 195.3 KiB, stored apart as" in page.text
    assert "xxxxxxxxxx" not in page.source


def test_what_looks_like_a_secret_in_the_playbook_is_hidden(page_of: PageOf) -> None:
    page = page_of("- {step: a, tool: {kind: noop, token: AKIAABCDEFGHIJKLMNOP}}")

    assert "AKIAABCDEFGHIJKLMNOP" not in page.source


@pytest.mark.spec("S-73")
def test_an_ignored_error_is_amber_and_named_at_the_top(page_of: PageOf) -> None:
    workflow = """
    - step: fetch
      tool:
        - ask:
            kind: http
            url: http://shop
            spec: {policy: {rules: [{when: "{{ outcome.result == 7 }}", then: {do: fail}}]}}
    """  # noqa: E501
    page = page_of(workflow, lambda call: Outcome.failed("timeout", "too slow"))

    classes = [each.get("class") for _, each in page.elements]
    assert "1 error ignored: no rule matched fetch : timeout: too slow" in page.text
    assert {"notice", "ignored", "sign flawed", "card flawed"} <= set(classes)
    assert "pill completed" in classes


@pytest.mark.spec("S-73", "S-74")
def test_a_step_that_is_not_reached_is_named_at_the_top(page_of: PageOf) -> None:
    workflow = """
    - step: a
      tool: {kind: noop}
      next: {arcs: [{step: b, when: "{{ event.payload.result.typo }}"}]}
    - step: b
      tool: {kind: noop}
    """
    page = page_of(workflow)

    read = "read event.payload.result.typo, which nothing gave"
    assert f"1 step not reached: b a : no arc fired; its guard {read}" in page.text
    assert f"a condition read a name that nothing gave a : a guard {read}" in page.text
    assert "card flawed" in [each.get("class") for _, each in page.elements]


@pytest.mark.spec("S-73")
def test_failed_iterations_come_first_with_their_message(page_of: PageOf) -> None:
    workflow = """
    - step: a
      spec: {policy: {failure: best_effort}}
      loop: {in: [1, 2], iterator: n}
      tool: {kind: noop, n: "{{ iter.n }}"}
    """

    def script(call: Call) -> Outcome:
        if call.inputs["n"] == 1:
            return Outcome.ok(None)
        return Outcome.failed("timeout", "too slow")

    page = page_of(workflow, script)

    assert "1 of 2 iterations failed: 1 \u00d7 timeout: [1] too slow" in page.text
    assert page.text.index("[1] 2 timeout: too slow") < page.text.index("[0] 1")
    assert "card flawed" in [each.get("class") for _, each in page.elements]


@pytest.mark.spec("S-38")
def test_iterations_that_a_cancellation_stops_have_not_failed() -> None:
    class Cancelled(Simulation):
        def cancel(self) -> None:
            self._settle(cancel)

    workflow = """workflow:
  - step: a
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: {kind: noop}
"""
    playbook = load(HEAD + workflow).playbook
    assert playbook is not None
    execution = Cancelled(playbook, lambda call: Outcome.ok(None))
    execution.start()
    execution.step()
    execution.cancel()
    record = Record().take(execution.log)
    page = Page(write_page(record, playbook, HEAD + workflow, version="0"))

    assert record.steps["a"].failed_iterations == 0
    assert "3 of 3 iterations ended, 2 cancelled" in page.text
    assert "Iterations 3 none failed" in page.text


@pytest.mark.spec("S-79")
@pytest.mark.parametrize(("seconds", "is_drawn"), [(5, True), (0, False)])
def test_the_time_in_the_queue_is_dashed(seconds: int, is_drawn: bool) -> None:
    simulation, text = simulate("- step: start\n  tool: {kind: noop}")
    log = list(simulation.log)
    names = [event.name for event in log]
    for place in range(names.index("step.scheduled") + 1):
        began = datetime.fromisoformat(log[place].timestamp)
        moment = (began - timedelta(seconds=seconds)).isoformat()
        log[place] = msgspec.structs.replace(log[place], timestamp=moment)
    page = Page(write_page(Record().take(log), simulation.playbook, text, version="0"))

    bars = [bar for bar in page.all("rect") if bar.get("class") == "queue"]
    assert bool(bars) is is_drawn
    assert ("queued 5" in page.source) is is_drawn
    assert ("dashed, grey: queued, no slot was free" in page.text) is is_drawn
