"""A plug-in that holds the key of a cluster's keychain."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from plugin_host import Host

from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.data_keys import DataKeys
from noetl.adapters.secrets.master_keys import KeyServiceKey

MODULE = """
from noetl.plugins import KeyPlugin

class Turning:
    def __init__(self, place):
        assert place == "acme:alias/x"

    async def seal(self, key):
        return bytes(each ^ 7 for each in key)

    open = seal

PLUGIN = KeyPlugin(api=1, make=Turning)
"""


class Turning:
    """The service of the plug-in, in the process of the test."""

    async def seal(self, key: bytes) -> bytes:
        return bytes(each ^ 7 for each in key)

    open = seal


@pytest.mark.spec("KEY-02")
def test_a_plug_in_opens_the_keychain_of_a_cluster(
    tmp_path: Path, postgres: str
) -> None:
    async def make_keys() -> None:
        database = Postgres(postgres)
        await DataKeys(database, KeyServiceKey("acme", Turning())).open(lambda: None)
        await database.close()

    asyncio.run(make_keys())
    host = Host(tmp_path)
    host.package("acme-keys", MODULE, keys="acme = acme_keys:PLUGIN")
    host.environ = {"NOETL_DATABASE": postgres, "NOETL_KEYCHAIN_KEY": "acme:alias/x"}

    found = check_of(host, NOETL_PLUGINS="acme-keys")
    assert (found["status"], found["message"]) == ("ok", "it opens: 1 key")
    missing = check_of(host)
    assert missing["status"] == "problem"
    assert "no enabled plug-in provides 'acme'" in missing["message"]


def check_of(host: Host, **environ: str) -> dict[str, Any]:
    found = json.loads(host.noetl("doctor", "--json", **environ).stdout)["checks"]
    return {each["check"]: each for each in found}["keychain"]
