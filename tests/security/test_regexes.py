"""No text that a caller or an author chooses keeps the event loop busy."""

from __future__ import annotations

from latency import Latency
from servers import Api, Running, playbook


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
