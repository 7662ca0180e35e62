"""Scans of uploads for names of secrets, receipts, and sealed values."""

from __future__ import annotations

import base64

import pytest

from noetl.engine.reports.accept import Fact
from noetl.errors import SecretError
from noetl.runtime.worker_protocol.sealing import (
    HandleScan,
    UploadReceipts,
    claimed_by,
    seal_value,
    unseal_value,
)

NAME = "0123456789abcdef0123456789abcdef"
K1, K2 = "1" * 64, "2" * 64
ESCAPED = "".join(f"\\u00{ord(each):02X}" for each in NAME).encode()


@pytest.mark.parametrize("size", [1, 7, 1_000])
@pytest.mark.parametrize("spelling", [NAME.encode(), ESCAPED], ids=["plain", "escaped"])
def test_a_name_is_found_in_any_spelling_and_across_parts(
    spelling: bytes, size: int
) -> None:
    text = b'{"a": "' + b"x" * 300 + spelling + b'"}'
    scan = HandleScan([NAME, "another"])
    for start in range(0, len(text), size):
        scan.feed(text[start : start + size])

    assert scan.found == {NAME}


def test_a_part_of_a_name_is_not_found() -> None:
    scan = HandleScan([NAME])
    scan.feed(NAME[:-1].encode())
    scan.feed(b" " + NAME[-1:].encode())

    assert scan.found == set()


def test_a_receipt_proves_one_key_of_one_execution() -> None:
    receipts = UploadReceipts(b"secret")
    reference = {"store": "noetl", "key": K1, "size": 9, "refs": [K2]}
    facts = [Fact("task.done", "task_1", 1, {"outcome": {"result": [reference]}})]
    proof = {key: receipts.give("e", key) for key in (K1, K2)}

    assert list(claimed_by(facts)) == [K1, K2]
    assert receipts.unproven("e", facts, proof) == []
    assert receipts.unproven("f", facts, proof) == [K1, K2]
    assert receipts.unproven("e", facts, {}) == [K1, K2]
    assert receipts.unproven("e", facts, {**proof, K1: proof[K2]}) == [K1]
    assert UploadReceipts(b"other").unproven("e", facts, proof) == [K1, K2]


class Reversed:
    """A cipher for tests: the text from its end, and its purpose."""

    def seal(self, text: bytes, purpose: str) -> bytes:
        return purpose.encode() + b":" + text[::-1]

    def open(self, sealed: bytes, purpose: str) -> bytes:
        head, _, text = sealed.partition(b":")
        if head != purpose.encode():
            raise SecretError("secret.sealed", "for another command")
        return text[::-1]


def test_a_sealed_value_opens_for_its_command_alone() -> None:
    sealed = seal_value(Reversed(), {"a": 1}, "e-1")

    assert unseal_value(Reversed(), sealed, "e-1") == {"a": 1}
    with pytest.raises(SecretError, match="another command"):
        unseal_value(Reversed(), sealed, "e-2")
    with pytest.raises(SecretError, match="not sealed") as caught:
        unseal_value(Reversed(), base64.b64encode(b"x").decode() + "\n!", "e-1")
    assert caught.value.kind == "secret.sealed"
