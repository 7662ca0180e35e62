"""The pages of the web UI are open, hold no data, and run only their own scripts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from servers import Api, Running

from noetl.api import pages

SCRIPT = b"export const size = 1;\n" * 200


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>shell</title>")
    (tmp_path / "assets" / "main-1f.js").write_bytes(SCRIPT)
    (tmp_path / "assets" / "notes.txt").write_text("not of the bundle")
    (tmp_path / "manifest.json").write_text("{}")
    monkeypatch.setattr(pages, "BUNDLE", tmp_path)
    return tmp_path


@pytest.fixture
def visitor(running: Running) -> Api:
    return Api(running.url, None)


PATHS = ("/", "/executions", "/executions/01a1?at=3&at=4", "/catalog/a/b/-/edit")


@pytest.mark.parametrize("path", [*PATHS, "/sign-in", "/inbox"])
def test_a_page_is_the_same_open_document_for_every_path(
    bundle: Path, visitor: Api, path: str
) -> None:
    answer = visitor.get(path)

    assert answer.status == 200
    assert answer.body == (bundle / "index.html").read_bytes()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == pages.POLICY
    assert "require-trusted-types-for 'script'" in pages.POLICY
    assert "unsafe" not in pages.POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"


def test_an_asset_is_kept_by_browsers_and_comes_compressed(
    bundle: Path, visitor: Api
) -> None:
    plain = visitor.get("/assets/main-1f.js")
    packed = visitor.get("/assets/main-1f.js", Accept_Encoding="br, gzip")
    never = visitor.get("/assets/main-1f.js", Accept_Encoding="gzip;q=0")
    known = visitor.get("/assets/main-1f.js", If_None_Match=plain.headers["etag"])

    assert plain.body == never.body == gzip.decompress(packed.body) == SCRIPT
    assert len(packed.body) < len(SCRIPT)
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in never.headers
    assert packed.headers["vary"] == "Accept-Encoding"
    assert "immutable" in packed.headers["cache-control"]
    assert packed.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (known.status, known.body) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/assets/none.js",
        "/assets/notes.txt",
        "/assets/..%2fmanifest.json",
        "/assets/../manifest.json",
        "/assets/%2e%2e/index.html",
        "/assets/",
        "/manifest.json",
        "/other",
    ],
)
def test_only_files_of_the_bundle_are_served(
    bundle: Path, visitor: Api, path: str
) -> None:
    answer = visitor.get(path)

    assert (answer.status, answer.body["kind"]) == (404, "route.unknown")


def test_a_page_is_not_given_to_foreign_names(bundle: Path, visitor: Api) -> None:
    for path in ("/", "/assets/main-1f.js"):
        assert visitor.get(path, Host="evil.com").status == 421


def test_without_a_bundle_a_page_says_so(
    tmp_path: Path, visitor: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "BUNDLE", tmp_path / "none")

    answer = visitor.get("/executions")

    assert answer.status == 200
    assert b"no web UI" in answer.body
