"""Playbooks with messages to people: a chat over HTTP, mail, both to real servers."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from demo_api import EXAMPLES

SECRET = "hooks-3f9a7c21"


class Chat(BaseHTTPRequestHandler):
    said: list[tuple[str, object]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.said.append((self.path, json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Mail(socketserver.StreamRequestHandler):
    """A mail server that takes everything."""

    said: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 mail\r\n")
        while line := self.rfile.readline():
            word = line.split()[0].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.said.append(b"".join(lines).decode())
            elif word == b"EHLO":
                self.wfile.write(b"250-mail\r\n250 AUTH PLAIN\r\n")
                continue
            elif word == b"AUTH":
                self.wfile.write(b"235 welcome\r\n")
                continue
            elif word == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            self.wfile.write(b"250 fine\r\n")


@contextmanager
def serving(handler: type[Chat | Mail]) -> Iterator[int]:
    handler.said = []
    kind = HTTPServer if handler is Chat else socketserver.TCPServer
    with kind(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_a_message_reaches_a_chat(shell) -> None:  # type: ignore[no-untyped-def]
    with serving(Chat) as port:
        address = f"http://127.0.0.1:{port}/{SECRET}"
        shell.noetl("keychain", "set", "chat_webhook", stdin=address)
        playbook = str(EXAMPLES / "alert_chat.yaml")
        done = shell.run(playbook, "--set", "text=the load failed")

    assert (done["status"], done["result"]) == ("completed", "the load failed")
    assert Chat.said == [(f"/{SECRET}", {"text": "the load failed"})]
    assert SECRET not in json.dumps(shell.events(done["execution_id"]))


def test_a_mail_is_sent(shell) -> None:  # type: ignore[no-untyped-def]
    with serving(Mail) as port:
        kind = ["--kind", "http_credential", "--field", "username=noetl"]
        account = ["mail_account", *kind, "--field", f"password={SECRET}"]
        shell.noetl("keychain", "set", *account)
        sets = ["host=127.0.0.1", f"port={port}", "tls=false", "text=the load failed"]
        options = [word for each in sets for word in ("--set", each)]
        done = shell.run(str(EXAMPLES / "alert_mail.yaml"), *options)

    assert (done["status"], done["result"]) == ("completed", "ops@example.com"), done
    [mail] = Mail.said
    assert "To: ops@example.com" in mail
    assert "the load failed" in mail
    assert SECRET not in json.dumps(shell.events(done["execution_id"]))
