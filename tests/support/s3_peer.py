"""A store that speaks the S3 protocol, for tests: as much of it as a client needs.

It is in memory, believes one key pair, checks what it is sent against the checksums
that come along, and can be told to refuse or to lose things.
"""

from __future__ import annotations

import re
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from email.utils import formatdate
from hashlib import md5, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

KEY, SECRET = "AKIDTESTS", "s3cret-of-the-store"


class S3Peer:
    """``objects`` are those of all buckets, by ``/bucket/path``."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.largest_body = 0
        self.now = time.time()
        self.refuses = False
        peer = self

        class Handler(_Handler):
            state = peer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.01,), daemon=True).start()

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: S3Peer
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self._body()
        if body is None:
            return
        if "partNumber" in self._query:
            parts = self.state.uploads[self._query["uploadId"]]
            parts[int(self._query["partNumber"])] = body
        else:
            self.state.objects[self._path] = (body, self.state.now)
        self._answer(200, headers={"ETag": _tag(body)})

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        if "uploads" in self._query:
            name = f"upload-{len(self.state.uploads)}"
            self.state.uploads[name] = {}
            self._answer(
                200,
                f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
                "</InitiateMultipartUploadResult>",
            )
        elif "delete" in self._query:
            bucket = self._path.strip("/").split("/")[0]
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for key in keys:
                self.state.objects.pop(f"/{bucket}/{key}", None)
            done = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._answer(200, f"<DeleteResult>{done}</DeleteResult>")
        else:
            parts = self.state.uploads.pop(self._query["uploadId"])
            whole = b"".join(parts[number] for number in sorted(parts))
            self.state.objects[self._path] = (whole, self.state.now)
            self._answer(
                200,
                f"<CompleteMultipartUploadResult><ETag>{escape(_tag(whole))}"
                "</ETag></CompleteMultipartUploadResult>",
            )

    def do_GET(self) -> None:
        if self._body() is None:
            return
        if "list-type" in self._query:
            self._list()
        else:
            self._give(with_body=True)

    def do_HEAD(self) -> None:
        if self._body() is not None:
            self._give(with_body=False)

    def do_DELETE(self) -> None:
        if self._body() is not None:
            self.state.objects.pop(self._path, None)
            self._answer(204)

    def _give(self, *, with_body: bool) -> None:
        found = self.state.objects.get(self._path)
        if found is None:
            self._answer(404, "<Error><Code>NoSuchKey</Code></Error>" * with_body)
            return
        body, at = found
        headers = {"ETag": _tag(body), "Last-Modified": formatdate(at, usegmt=True)}
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _list(self) -> None:
        bucket = self._path.rstrip("/")
        prefix = self._query.get("prefix", "")
        found = "".join(
            f"<Contents><Key>{escape(name[len(bucket) + 1 :])}</Key>"
            f"<Size>{len(body)}</Size><ETag>{escape(_tag(body))}</ETag>"
            f"<LastModified>{_moment(at)}</LastModified></Contents>"
            for name, (body, at) in sorted(self.state.objects.items())
            if name.startswith(f"{bucket}/{prefix}")
        )
        self._answer(
            200,
            "<ListBucketResult><IsTruncated>false</IsTruncated>"
            f"{found}</ListBucketResult>",
        )

    def _body(self) -> bytes | None:
        """The request's, once it is found to be in order."""
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        self.state.largest_body = max(self.state.largest_body, size)
        signed = self.headers.get("Authorization", "")
        if self.state.refuses or f"Credential={KEY}/" not in signed:
            said = f"<StringToSign>{escape(signed)} {SECRET}</StringToSign>"
            code = "<Code>SignatureDoesNotMatch</Code>"
            self._answer(403, f"<Error>{code}{said}</Error>")
            return None
        sums = {
            "x-amz-checksum-sha256": b64encode(sha256(body).digest()).decode(),
            "x-amz-content-sha256": sha256(body).hexdigest(),
        }
        for name, value in sums.items():
            given = self.headers.get(name, value)
            if given not in (value, "UNSIGNED-PAYLOAD"):
                self._answer(400, "<Error><Code>BadDigest</Code></Error>")
                return None
        return body

    @property
    def _path(self) -> str:
        return unquote(urlsplit(self.path).path)

    @property
    def _query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    def _answer(
        self, status: int, text: str = "", headers: dict[str, str] | None = None
    ) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))


def _tag(body: bytes) -> str:
    return f'"{md5(body, usedforsecurity=False).hexdigest()}"'


@pytest.fixture
def s3() -> Iterator[S3Peer]:
    peer = S3Peer()
    yield peer
    peer.stop()
