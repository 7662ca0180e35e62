"""A schema of a playbook that names an address or a file: nothing is fetched."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from noetl.dsl.json_schema import _compile, find_flaws


@pytest.fixture
def schema_server() -> Iterator[tuple[str, list[str]]]:
    """A server that answers every request with a schema, and the paths requested."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/schema.json", paths
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("word", ["$ref", "$schema", "$id", "$dynamicRef"])
def test_a_schema_fetches_nothing(
    word: str, schema_server: tuple[str, list[str]], tmp_path: Path
) -> None:
    """Our check refuses it, and the library would not follow it either."""
    address, paths = schema_server
    file = tmp_path / "schema.json"
    file.write_text('{"type": "null"}')
    for target in (address, f"{address}#/a", file.as_uri(), str(file)):
        for schema in ({word: target}, {"items": {word: target}}):
            if word != "$schema":  # a note for people, which is not followed
                assert find_flaws(schema)
            with nullcontext() if word == "$schema" else suppress(ValueError):
                assert _compile(msgspec.json.encode(schema)).is_valid([1])
    assert paths == []
