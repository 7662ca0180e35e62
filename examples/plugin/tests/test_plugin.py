"""The plug-in by itself: no engine is needed to test its parts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.plugins import BlobGone, Outcome, SecretError, ToolCall, ToolError, Wanted
from noetl_example_plugin import dotenv, rows, slug


def call(**inputs: Any) -> Outcome:
    made = ToolCall(
        kind="slug",
        inputs=inputs,
        spec=slug.KIND.defaults,
        execution_id="e",
        step="s",
        task="t",
        action_id="a",
        attempt=1,
    )
    return asyncio.run(slug.PLUGIN.make().run(made))


def test_a_text_becomes_part_of_an_address() -> None:
    outcome = call(text="Ærø, a Café in spring!")

    assert outcome.result == {"slug": "r-a-cafe-in-spring", "words": 5}
    assert call(text="a b", separator="_").result == {"slug": "a_b", "words": 2}


@pytest.mark.parametrize(
    ("text", "kind"), [("…", "slug.empty"), (None, "tool.contract")]
)
def test_a_text_that_will_not_do_has_an_error_kind(text: Any, kind: str) -> None:
    with pytest.raises(ToolError) as e:
        call(text=text)
    assert e.value.kind == kind


def test_a_variable_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text('# shop\nSHOP_TOKEN="t0ken"\n')
    provider = dotenv.PLUGIN.make()

    fields = {"variable": "SHOP_TOKEN"}
    wanted = Wanted("shop", "dotenv", fields, str(tmp_path))
    assert asyncio.run(provider.get(wanted)) == "t0ken"

    with pytest.raises(SecretError, match="has no variable other"):
        asyncio.run(provider.get(Wanted("other", "dotenv", {}, str(tmp_path))))


def test_results_are_there_for_another_process(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/results.db"

    asyncio.run(rows.PLUGIN.make(url).put("k", b"data"))

    assert asyncio.run(rows.PLUGIN.make(url).get("k")) == b"data"
    with pytest.raises(BlobGone):
        asyncio.run(rows.PLUGIN.make(url).get("other"))
    with pytest.raises(ValueError, match="sqlite:///path"):
        rows.PLUGIN.make("sqlite:file")
