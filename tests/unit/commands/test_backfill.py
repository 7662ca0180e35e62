"""``noetl backfill --wait``: leaving it with Ctrl-C."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.commands import backfill


class Interrupted:
    """A client whose caller presses Ctrl-C while it waits for an answer."""

    url = "http://127.0.0.1:8082"
    option = " --server http://127.0.0.1:8082"

    def get(self, path: str) -> Any:
        raise KeyboardInterrupt


def test_ctrl_c_leaves_a_backfill_running_and_names_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backfill.time, "sleep", lambda _: None)
    client: Any = Interrupted()

    with pytest.raises(SystemExit) as left:
        backfill._wait(client, {"state": "running", "backfill_id": "b1"})

    assert left.value.code == 130
    assert capsys.readouterr().err.splitlines() == [
        "left: the backfill goes on at http://127.0.0.1:8082",
        "  look: noetl backfill status b1 --server http://127.0.0.1:8082, "
        "stop: noetl backfill stop b1 --server http://127.0.0.1:8082",
    ]
