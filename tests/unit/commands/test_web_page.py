"""A link leads to the server that was asked, whatever it answers."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.commands.remote.web_page import make_link


class Hostile:
    """A server that would have the link lead elsewhere."""

    url = "http://127.0.0.1:8082"

    def post(self, path: str) -> dict[str, Any]:
        code = "x\x1b[2J@evil.example"
        return {"code": code, "url_path": f"@evil.example/{path}", "expires_at": "now"}


@pytest.mark.parametrize("page", ["/", "/executions/1"])
def test_a_link_leads_to_the_server_that_was_asked(page: str) -> None:
    link = make_link(Hostile(), page)  # type: ignore[arg-type]

    assert link.url.startswith("http://127.0.0.1:8082/sign-in")
    assert link.url.endswith("#code=x%1B%5B2J%40evil.example")
