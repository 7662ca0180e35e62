"""Where the server listens."""

from __future__ import annotations

import socket

from noetl.api.http.server import bind


def test_answers_are_sent_at_once() -> None:
    """None of their parts waits for another one to be heard."""
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        with socket.create_connection(bound.getsockname()):
            accepted, _ = bound.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
