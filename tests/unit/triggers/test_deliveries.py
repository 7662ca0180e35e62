"""Whose a delivery is, and what its templates can read."""

from __future__ import annotations

import hmac
from hashlib import sha256

import pytest

from noetl.triggers.definition import Webhook
from noetl.triggers.inputs import TriggerError, render_key, render_workload
from noetl.triggers.webhook import delivery_scope, has_token, is_signed

TOKEN = "nth_" + "5a" * 32
KEPT = sha256(TOKEN.encode()).hexdigest()


@pytest.mark.parametrize(
    ("webhook", "headers", "true"),
    [
        (Webhook(), {"authorization": [f"Bearer {TOKEN}"]}, True),
        (Webhook(), {"authorization": [f"bearer  {TOKEN}"]}, True),
        (Webhook(header="X-Gitlab-Token"), {"x-gitlab-token": [TOKEN]}, True),
        (Webhook(header="X-Gitlab-Token"), {"authorization": [TOKEN]}, False),
        (Webhook(), {}, False),
        (Webhook(), {"authorization": []}, False),
        (Webhook(), {"authorization": [f"Bearer {TOKEN}", "Bearer x"]}, False),
        (Webhook(), {"authorization": [f"Bearer {TOKEN[:-1]}6"]}, False),
        (Webhook(), {"authorization": [f"Bearer {TOKEN}0"]}, False),
        (Webhook(), {"authorization": [f"Basic {TOKEN}"]}, False),
        (Webhook(), {"authorization": ["Bearer ntl_" + "5a" * 32]}, False),
        (Webhook(), {"authorization": ["Bearer \udcff"]}, False),
    ],
)
def test_a_token_opens_its_webhook(webhook, headers, true) -> None:
    assert has_token(webhook, headers, KEPT) is true
    assert has_token(webhook, headers, None) is False


@pytest.mark.parametrize(
    ("said", "true"),
    [
        ("sha256={}", True),
        ("{}", True),
        ("SHA256={}", True),
        ("sha1={}", False),
        ("sha256=", False),
        ("", False),
        ("sha256=ü", False),
    ],
)
def test_a_signature_is_of_the_body(said: str, true: bool) -> None:
    body, secret = b'{"id": 1}', b"a secret of sixteen"
    digest = hmac.new(secret, body, sha256).hexdigest()
    webhook = Webhook(verify="signature", header="X-Hub-Signature-256")
    headers = {"x-hub-signature-256": [said.format(digest)]}

    assert is_signed(webhook, headers, body, secret) is true
    assert not is_signed(webhook, headers, body + b" ", secret)
    assert not is_signed(webhook, headers, body, b"another secret")
    twice = {"x-hub-signature-256": headers["x-hub-signature-256"] * 2}
    assert not is_signed(webhook, twice, body, secret)


def test_no_template_reads_what_proves_a_sender() -> None:
    headers = {
        "authorization": ["Bearer x"],
        "cookie": ["a=b"],
        "x-hook": ["secret"],
        "x-event": ["push", "again"],
    }

    scope = delivery_scope(Webhook(header="X-Hook"), {"a": 1}, headers)

    assert scope == {"payload": {"a": 1}, "headers": {"x-event": "push, again"}}


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("{{ payload.id }}", "7"),
        ("order-{{ payload.id }}", "order-7"),
        ("{{ headers['x-id'] }}", "abc"),
        ("fixed", "fixed"),
    ],
)
def test_a_key_is_made_of_a_delivery(source: str, key: str) -> None:
    scope = {"payload": {"id": 7}, "headers": {"x-id": "abc"}}

    assert render_key(source, scope) == key


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ payload.nothing }}", "undefined"),
        ("{{ payload.none }}", "found nothing"),
        ("{{ payload }}", "found dict"),
        ("{{ payload.true }}", "found bool"),
        ("{{ payload.long }}", "1 to 200 printable"),
        ("{{ payload.lines }}", "1 to 200 printable"),
        ("{{ payload.empty }}", "1 to 200 printable"),
    ],
)
def test_what_can_be_no_key_is_refused(source: str, message: str) -> None:
    payload = {"none": None, "true": True, "long": "x" * 201, "lines": "a\nb"}
    with pytest.raises(TriggerError, match=message):
        render_key(source, {"payload": {**payload, "empty": ""}})


def test_inputs_are_inserted_and_never_evaluated_again() -> None:
    scope = {"payload": {"x": "{{ 7 * 7 }}"}}

    assert render_workload({"a": "{{ payload.x }}"}, scope) == {"a": "{{ 7 * 7 }}"}
    with pytest.raises(TriggerError) as caught:
        render_workload({"a": ["{{ payload.y }}"]}, scope)
    assert caught.value.path == "workload.a[0]"
