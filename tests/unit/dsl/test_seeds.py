"""Playbooks as the specification's examples describe them, in our own words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl import load

Document = Callable[..., str]

MINIMAL = """
- step: start
  tool:
    - begin: {kind: noop}
  next:
    spec: {mode: exclusive}
    arcs:
      - step: fetch
        when: "{{ event.name == 'step.done' }}"
- step: fetch
  tool:
    - get:
        kind: http
        method: GET
        url: "{{ workload.api }}/status"
        spec:
          timeout: {connect: 2, read: 5}
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and outcome.http.status in [429, 500, 502, 503] }}"
                then: {do: retry, attempts: 5, backoff: exponential, delay: 0.5}
              - when: "{{ outcome.status == 'error' }}"
                then: {do: fail}
              - else:
                  then: {do: continue, set_ctx: {status: "{{ outcome.result.status }}"}}
  next:
    arcs:
      - step: end
        when: "{{ event.name == 'step.done' }}"
- step: end
  tool:
    - done: {kind: noop}
"""  # noqa: E501

PAGES = """
- step: start
  loop:
    in: "{{ workload.cities }}"
    iterator: city
    spec: {mode: parallel, max_in_flight: 5, policy: {exec: distributed}}
  tool:
    - fetch:
        kind: http
        url: "{{ workload.api }}/cities/{{ iter.city.id }}/rows"
        params: {page: "{{ iter.page | default(1) }}"}
        spec:
          policy:
            rules:
              - when: "{{ outcome.http.status == 404 }}"
                then: {do: jump, to: store_404}
              - when: "{{ outcome.status == 'error' and outcome.error.retryable }}"
                then: {do: retry, attempts: 4, backoff: linear, delay: 1s}
              - when: "{{ outcome.status == 'error' }}"
                then: {do: fail}
              - else:
                  then:
                    do: continue
                    set_iter: {more: "{{ outcome.result.has_more }}"}
    - transform:
        kind: python
        args: {rows: "{{ _prev.rows }}"}
        code: |
          def main(rows):
              return [row for row in rows if row["valid"]]
    - store_200:
        kind: postgres
        auth: pg
        command: INSERT INTO rows SELECT * FROM json_populate_recordset(null::rows, $1)
        params: ["{{ _prev }}"]
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: {do: fail}
              - when: "{{ iter.more }}"
                then:
                  do: jump
                  to: fetch
                  set_iter: {page: "{{ (iter.page | default(1)) + 1 }}"}
              - else: {then: {do: break}}
    - store_404:
        kind: postgres
        auth: pg
        command: INSERT INTO missing VALUES ($1)
        params: ["{{ iter.city.id }}"]
  next:
    arcs:
      - step: report
        when: "{{ event.name == 'loop.done' }}"
        args: {cities: "{{ event.payload.done }}"}
      - step: alarm
        when: "{{ event.name == 'step.failed' }}"
- step: report
  tool: [{say: {kind: noop, result: "{{ args.cities }} cities"}}]
- step: alarm
  tool: [{say: {kind: noop}}]
"""

ADMISSION = """
- step: start
  next:
    spec: {mode: inclusive}
    arcs:
      - {step: cheap, when: "{{ workload.total < 100 }}"}
      - {step: dear, when: "{{ workload.total >= 100 }}", args: {total: "{{ workload.total }}"}}
- step: cheap
  tool: [{approve: {kind: noop}}]
- step: dear
  spec:
    policy:
      admit:
        rules:
          - when: "{{ args.total > 10000 and not ctx.approved }}"
            then: {allow: false}
          - else: {then: {allow: true}}
  tool: [{approve: {kind: noop}}]
"""  # noqa: E501

SWEEP = """
- step: start
  loop:
    in: "{{ range(workload.points) }}"
    iterator: point
    spec: {mode: parallel, max_in_flight: 2, policy: {set_ctx: write_once}}
  tool:
    - submit:
        kind: quantum
        operation: submit
        circuit: "{{ workload.circuit }}"
        shots: 1000
        params: {theta: "{{ iter.point }}"}
    - poll:
        kind: quantum
        operation: status
        job: "{{ _prev }}"
        spec:
          policy:
            rules:
              - when: "{{ outcome.result.state != 'done' }}"
                then: {do: retry, attempts: 100, delay: 5s}
              - else: {then: {do: continue}}
    - fetch:
        kind: quantum
        operation: result
        job: "{{ _prev.job }}"
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: {do: fail}
              - else:
                  then: {do: continue, set_ctx: {swept: true}}
"""

NESTED = """
- step: start
  loop:
    in: [{regions: [north, south]}, {regions: [west]}]
    iterator: country
    spec: {mode: parallel, max_in_flight: 2}
    loop:
      in: "{{ iter.country.regions }}"
      iterator: region
  tool:
    - visit:
        kind: noop
        result: "{{ iter.parent.country }}: {{ iter.region }}"
"""


@pytest.mark.spec("ACC-11")
def test_the_minimal_example_is_clean(document: Document) -> None:
    loaded = load(document(MINIMAL, "workload: {api: https://example.com}\n"))
    assert loaded.diagnostics == ()
    assert loaded.playbook is not None
    assert list(loaded.playbook.steps) == ["start", "fetch", "end"]


@pytest.mark.spec("ACC-11", "WARN-01", "S-69")
def test_a_bare_end_step_is_a_warning(document: Document) -> None:
    steps = MINIMAL.replace("- step: end\n  tool:\n    - done: {kind: noop}\n", "")
    loaded = load(
        document(steps + "- step: end\n", "workload: {api: https://example.com}\n")
    )
    assert loaded.valid
    assert [found.code for found in loaded.diagnostics] == ["WARN-01"]


@pytest.mark.spec("ACC-11", "S-08")
def test_an_unguarded_arc_after_a_tool_is_a_hint(document: Document) -> None:
    steps = MINIMAL.replace(
        "      - step: end\n        when: \"{{ event.name == 'step.done' }}\"\n",
        "      - step: end\n",
    )
    loaded = load(document(steps, "workload: {api: https://example.com}\n"))
    assert loaded.valid
    assert [(f.code, f.severity) for f in loaded.diagnostics] == [("S-08", "hint")]


@pytest.mark.spec("POL-15")
def test_pagination_with_storage_by_status_is_clean(document: Document) -> None:
    root = (
        "keychain: [{name: pg, kind: postgres_credential}]\n"
        "workload: {api: https://example.com, cities: [{id: 1}]}\n"
    )
    assert load(document(PAGES, root)).diagnostics == ()


@pytest.mark.spec("ADM-01", "ADM-02", "ADM-03")
def test_admission_is_clean(document: Document) -> None:
    [found] = load(document(ADMISSION, "workload: {total: 5}\n")).diagnostics
    assert found.message == "nothing in this playbook defines ctx.approved"


@pytest.mark.spec("QNT-01", "QNT-03", "LOOP-14")
def test_a_parallel_sweep_is_clean(document: Document) -> None:
    root = "workload: {points: 10, circuit: qasm}\n"
    assert load(document(SWEEP, root)).diagnostics == ()


@pytest.mark.spec("WARN-02", "LOOP-14")
def test_a_parallel_sweep_that_does_not_say_so(document: Document) -> None:
    root = "workload: {points: 10, circuit: qasm}\n"
    steps = SWEEP.replace(", policy: {set_ctx: write_once}", "")
    loaded = load(document(steps, root))
    assert loaded.valid
    assert [found.code for found in loaded.diagnostics] == ["WARN-02"]


@pytest.mark.spec("C-25", "LOOP-02")
def test_loops_inside_loops_are_clean(document: Document) -> None:
    assert load(document(NESTED)).diagnostics == ()
