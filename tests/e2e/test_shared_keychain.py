"""``noetl keychain`` with a server on a database: one keychain for all servers."""

from __future__ import annotations

import json
from typing import Any

from noetl.adapters.secrets.private_files import write_private

SECRET = "s3cret-of-the-cluster-0815"


def test_secrets_move_into_the_cluster_and_get_a_new_key(
    shell: Any, postgres: str
) -> None:
    done = shell.noetl("keychain", "set", "api", "--for", "x/*", stdin=SECRET)
    assert done.returncode == 0, done.stderr
    shell.set(NOETL_DATABASE=postgres)
    lost = shell.noetl("keychain", "set", "other", stdin=SECRET)
    assert (lost.returncode, "noetl server start" in lost.stderr) == (3, True)
    assert shell.noetl("server", "start", "--port", "0").returncode == 0
    try:
        warned = checks_of(shell)["keychain"]
        assert (warned["status"], warned["cure"]) == (
            "warning",
            "run: noetl keychain move",
        )
        moved = shell.noetl("keychain", "move")
        assert moved.stdout == "moved: api: secret_manager, for x/*\n"
        assert json.loads((shell.home / "keychain.json").read_text()) == {}
        [entry] = json.loads(shell.noetl("keychain", "list", "--json").stdout)[
            "keychain"
        ]
        assert (entry["name"], entry["for"]) == ("api", ["x/*"])

        rotated = json.loads(shell.noetl("keychain", "rotate", "--json").stdout)
        assert [each["key_id"] for each in rotated["keys"]] == [rotated["key_id"]]
        assert rotated["key_id"] != entry["key"]
        listed = shell.noetl("keychain", "keys").stdout
        assert f"{rotated['key_id']}: seals, 2 sealed" in listed
    finally:
        shell.noetl("server", "stop")

    write_private(shell.home / "key", bytes(32))
    refused = shell.noetl("server", "start", "--port", "0")
    assert (refused.returncode, "has another key" in refused.stderr) == (2, True)
    assert "Traceback" not in refused.stdout + refused.stderr
    found = checks_of(shell)["keychain"]
    assert (found["status"], "has another key" in found["message"]) == ("problem", True)
    (shell.home / "key").unlink()
    missing = shell.noetl("server", "start", "--port", "0")
    assert (missing.returncode, "cannot be read" in missing.stderr) == (2, True)
    assert not (shell.home / "key").exists()


def checks_of(shell: Any) -> dict[str, Any]:
    found = json.loads(shell.noetl("doctor", "--json").stdout)["checks"]
    return {each["check"]: each for each in found}
