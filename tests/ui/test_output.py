"""What tasks print: while they run, searched, and without secrets."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from servers import Api, playbook
from web_pages import Visitor

SECRET = "canary-of-a-printed-secret-17"
TALKS = playbook(
    "talks",
    """
    - step: start
      tool: {kind: shell, command: "seq 1 3000; echo the needle; seq 1 10"}
      next: {arcs: [{step: ask}]}
    - {step: ask, tool: {kind: wait, signal: go}, next: {arcs: [{step: end}]}}
    - {step: end, tool: {kind: shell, command: echo the last line}}
    """,
)
TELLS = playbook(
    "tells",
    """
    - step: start
      tool:
        kind: python
        args: {token: "{{ keychain.printed }}"}
        code: |
          def main(token):
              print("the token is", token)
    """,
    "keychain: [{name: printed, kind: secret_manager}]\n",
)


@pytest.mark.in_a_cluster_too
def test_output_is_followed_while_the_execution_runs(
    visitor: Visitor, api: Api
) -> None:
    execution_id = api.start(TALKS)
    api.await_event(execution_id, "task.suspended")
    page = visitor.open(f"/executions/{execution_id}?tab=output&sel=-")
    expect(page.get_by_text("3,011 lines")).to_be_visible()
    expect(page.locator(".output-row").last).to_contain_text("10")
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})

    expect(page.get_by_text("the last line")).to_be_in_viewport()
    page.get_by_label("Find in the output").fill("needle")
    expect(page.locator(".output-row")).to_have_count(1)
    expect(page.get_by_text("1 line", exact=True)).to_be_visible()


def test_a_secret_that_is_printed_is_masked(visitor: Visitor, api: Api) -> None:
    assert api.post("/api/keychain/printed", {"value": SECRET}).status < 300
    execution_id = api.run(TELLS)["execution_id"]
    page = visitor.open(f"/executions/{execution_id}?tab=output&sel=-")

    expect(page.locator(".output-row")).to_contain_text("the token is")
    assert SECRET not in page.content()
