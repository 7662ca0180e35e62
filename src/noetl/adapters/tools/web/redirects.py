"""The next request after a redirect, if there is one."""

from __future__ import annotations

from collections.abc import Mapping

from yarl import URL

from noetl.adapters.tools.web.request import Request, parse_url

MOST = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BODY_HEADERS = frozenset({"content-type", "content-encoding", "content-language"})


def next_request(
    request: Request, status: int, headers: Mapping[str, str]
) -> Request | None:
    """Where the response sends us; None if it is an answer."""
    location = headers.get("Location")
    if status not in _REDIRECTS or not location:
        return None
    url = parse_url(location, base=request.url).with_user(None)
    method, body, kept = request.method, request.body, dict(request.headers)
    if method != "HEAD" and (status == 303 or (status < 303 and method == "POST")):
        method, body = "GET", None
        kept = without(kept, _BODY_HEADERS)
    if not is_same_party(request.url, url):
        kept = without(kept, request.secret)
        kept = without(kept, frozenset({"host"}))
    return Request(method, url, kept, body, request.secret)


def is_same_party(old: URL, new: URL) -> bool:
    """Whether credentials may follow: the same origin, or its step up to https."""
    if old.host != new.host:
        return False
    if (old.scheme, old.port) == (new.scheme, new.port):
        return True
    return (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)


def without(headers: dict[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}
