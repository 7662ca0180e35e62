"""HTTP client of a NoETL server, for commands."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import IO
from urllib.parse import quote, urlencode, urlsplit

from noetl.client.tls import Trust, trusted
from noetl.errors import NoetlError, Unreachable
from noetl.types import JSON

_PART = 1 << 20
TIMEOUT_S = 60.0
"""Seconds without a byte after which the server counts as unreachable."""


LOGIN = "noetl login"
"""The place of a token that this command has got."""


_OF_SIGN_IN = ("auth.failed", "oidc.refused")
"""Refusals of a sign-in: no other token helps."""


class Refused(NoetlError):
    """The server refused the request; the message has the reason and the hint."""

    def __init__(self, problem: Mapping[str, JSON], status: int) -> None:
        text = str(problem.get("message") or problem.get("detail") or f"HTTP {status}")
        hint = problem.get("hint")
        super().__init__(f"{text}; {hint}" if hint else text)
        self.kind = str(problem.get("kind", ""))
        self.problem = dict(problem)
        self.status = status


class Client:
    """A client of one server; each call opens its own connection."""

    def __init__(
        self,
        url: str,
        token: str | None,
        trust: Trust = lambda url: trusted(),
        token_place: str = "NOETL_TOKEN",
        option: str = "",
    ) -> None:
        self.url = url
        self.option = option
        """What a command that is printed needs to reach the server, with a space."""
        self._token_place = token_place
        self._token = token
        self._trust = trust

    def get(self, path: str, **query: JSON) -> JSON:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: JSON = None, **headers: str) -> JSON:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.call("POST", path, body=body, headers=names)

    def call(
        self,
        method: str,
        path: str,
        *,
        body: JSON = None,
        query: Mapping[str, JSON] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> JSON:
        """Send a request; return the answer. Raises ``Unreachable`` or ``Refused``."""
        connection, response = self._send(method, path, body, query, headers)
        try:
            raw = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from None
        finally:
            connection.close()
        return self._judge(response.status, raw)

    def download(self, path: str, file: IO[bytes], **query: JSON) -> int:
        """Write the answer to a file in parts; return the number of bytes."""
        connection, response = self._send("GET", path, None, query, {"Accept": "*/*"})
        count = 0
        try:
            if response.status >= 400:
                self._judge(response.status, response.read())
            while part := response.read(_PART):
                file.write(part)
                count += len(part)
            return count
        except http.client.HTTPException as error:
            raise self._lost(error) from None
        finally:
            connection.close()

    def follow(self, path: str, after: int = 0) -> Iterator[JSON]:
        """Yield events of a stream until its end; reconnect if it breaks off."""
        over = False
        while not over:
            seen = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
            connection, response = self._send("GET", path, None, None, seen)
            try:
                if response.status == 204:
                    return
                if response.status != 200:
                    self._judge(response.status, response.read())
                for event in _events(response):
                    yield event
                    after, over = event["seq"], event["name"] == "playbook.processed"
            except (OSError, http.client.HTTPException):
                continue  # the next call finds out whether the server is reachable
            finally:
                connection.close()

    def follow_lines(self, path: str, query: Mapping[str, JSON]) -> Iterator[JSON]:
        """Yield lines of a stream of task logs until its end; reconnect if it breaks
        off."""
        after: str | None = None
        while True:
            seen = {"Accept": "text/event-stream"}
            if after is not None:
                seen["Last-Event-ID"] = after
            connection, response = self._send("GET", path, None, query, seen)
            try:
                if response.status == 204:
                    return
                if response.status != 200:
                    self._judge(response.status, response.read())
                for line in response:
                    if line.startswith(b"id: "):
                        following = line[4:].decode().strip()
                    elif line.startswith(b"data: "):
                        yield json.loads(line[6:])
                        after = following
            except (OSError, http.client.HTTPException):
                continue  # the next call finds out whether the server is reachable
            finally:
                connection.close()

    def _send(
        self,
        method: str,
        path: str,
        body: JSON,
        query: Mapping[str, JSON] | None,
        headers: Mapping[str, str] | None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        given = {name: value for name, value in (query or {}).items() if value}
        target = quote(path) + (f"?{urlencode(given, doseq=True)}" if given else "")
        said = {"Accept": "application/json", **(headers or {})}
        if self._token is not None:
            said["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            said["Content-Type"] = "application/json"
        connection = self._connection()
        try:
            connection.request(method, target, data, said)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._lost(error) from None

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=TIMEOUT_S, context=self._trust(self.url)
            )
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)

    def _judge(self, status: int, raw: bytes) -> JSON:
        try:
            answer = json.loads(raw) if raw else None
        except ValueError:
            raise Unreachable(f"{self.url} is not a NoETL server") from None
        if status < 400:
            return answer
        problem = answer if isinstance(answer, dict) else {}
        if status == 503:
            raise Unreachable(f"{self.url}: {problem.get('message', 'unavailable')}")
        if status == 401 and problem.get("kind") not in _OF_SIGN_IN:
            hint = "set NOETL_TOKEN, or NOETL_HOME to the home of that server"
            problem = {**problem, "hint": hint}
            if self._token is not None:
                message = f"{self.url} refused the token of {self._token_place}"
                hint = "it is unknown, expired or revoked there; get a new one with: "
                hint += "noetl token create, at the home of that server"
                if self._token_place == LOGIN:
                    hint = f"it has ended; sign in again: {LOGIN} --server {self.url}"
                problem |= {"message": message, "hint": hint}
        raise Refused(problem, status)

    def _lost(self, error: Exception) -> Unreachable:
        if isinstance(error, ssl.SSLCertVerificationError):
            message = f"{self.url} is not trusted: {error.verify_message}"
            hint = "if you use a private authority, name it: --ca FILE, or NOETL_CA"
            return Unreachable(f"{message}; {hint}")
        if isinstance(error, ssl.SSLError):
            message = f"{self.url}: TLS handshake failed ({error.reason})"
            return Unreachable(f"{message}; a server without TLS is at http://…")
        if isinstance(error, http.client.HTTPException) and self.url[:5] == "http:":
            message = f"{self.url} does not answer in HTTP"
            return Unreachable(f"{message}; a server with TLS is at https://…")
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "start one: noetl server start"
        return Unreachable(f"{self.url} cannot be reached: {reason}; {hint}")


def _events(stream: IO[bytes]) -> Iterator[JSON]:
    for line in stream:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])
