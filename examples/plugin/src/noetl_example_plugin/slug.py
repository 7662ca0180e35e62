"""Kind ``slug``: a text as it may stand in an address."""

from __future__ import annotations

import re
import unicodedata

from noetl.plugins import (
    TEXT,
    Field,
    Input,
    Kind,
    Outcome,
    ToolCall,
    ToolError,
    ToolPlugin,
    integer,
    one_of,
)

KIND = Kind(
    name="slug",
    doc="Turns a text into a part of an address.",
    inputs={
        "text": Input(TEXT, "The text.", required=True),
        "separator": Input(one_of("-", "_"), "What stands between words (`-`)."),
    },
    result="`{slug, words}`.",
    knobs={
        "max_length": Field(integer(1, 255), "PIPE-10", "Most characters (80)."),
    },
    defaults={"max_length": 80, "timeout": 5},
)


class SlugTool:
    # It waits for nothing and changes nothing.
    instant = True

    def has_effect(self, call: ToolCall) -> bool:
        return False

    async def run(self, call: ToolCall) -> Outcome:
        text = call.inputs["text"]
        if not isinstance(text, str):  # a template may have yielded anything
            raise ToolError("tool.contract", "slug: 'text' must be text")
        plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
        words = re.findall(r"[a-z0-9]+", plain.lower())
        if not words:
            message = f"nothing of the text can stand in an address: {text!r:.60}"
            raise ToolError("slug.empty", message)
        separator = call.inputs.get("separator") or "-"
        slug = separator.join(words)[: call.spec["max_length"]]
        return Outcome.ok({"slug": slug.rstrip("-_"), "words": len(words)})

    async def close(self) -> None:
        pass


PLUGIN = ToolPlugin(api=1, kind=KIND, make=SlugTool)
