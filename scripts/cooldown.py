"""Runs pip, or a tool built on it, without files uploaded in the last 7 days.

    python scripts/cooldown.py piptools compile …

Most compromised packages are found and removed within days. The index reports the time
of upload (``upload-time`` in JSON, ``data-upload-time`` in HTML); a file without it is
refused. Files that a lock file already names are accepted, and so are files from a
local folder. ``FRESH="name …"`` in the environment accepts packages of any age, for an
urgent fix.

pip's own ``--uploaded-prior-to`` reads JSON alone and has no exceptions.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pip._internal.exceptions import InstallationError
from pip._internal.index.package_finder import LinkEvaluator, LinkType
from pip._internal.models.link import Link

DAYS = 7
ROOT = Path(__file__).parent.parent
LOCKS = ("requirements.lock", "deploy/*.lock", "scripts/*.lock")


class CoolDown:
    """Upload times of files, and the versions that were refused or accepted."""

    def __init__(self, now: datetime, locked: set[str], fresh: set[str]) -> None:
        self.limit = now - timedelta(days=DAYS)
        self.locked = locked
        self.fresh = fresh
        self.uploaded: dict[str, datetime] = {}
        self.said: set[str] = set()

    def note(self, link: Link | None, text: str | None) -> Link | None:
        if link is not None and text:
            moment = datetime.fromisoformat(text)
            is_naive = moment.tzinfo is None
            self.uploaded[link.url] = moment.replace(tzinfo=UTC) if is_naive else moment
        return link

    def refuses(self, link: Link, name: str, version: str) -> bool:
        """Return whether a file is too young. Raises if its age is not known."""
        if link.is_file or (link.hash_name == "sha256" and link.hash in self.locked):
            return False
        moment = self.uploaded.get(link.url)
        is_named = name in self.fresh
        if moment is None and not is_named:
            raise InstallationError(
                f"the index does not say when {link.filename} was uploaded, and a file "
                f"has to be {DAYS} days old to be locked; use an index that says it, "
                f"or take the package as it is: make lock FRESH={name}"
            )
        if moment is not None and moment < self.limit:
            return False
        age = f"uploaded {moment:%Y-%m-%d}" if moment else "of unknown age"
        verb = "taken, as FRESH names it" if is_named else "left out"
        rule = f"a lock takes files that are {DAYS} days old"
        self.said.add(f"noetl: {name} {version} is {verb}: {age}; {rule}\n")
        return not is_named


def install(rule: CoolDown) -> None:
    """Add the rule where pip reads the pages of an index and judges their links."""
    from_json, from_element = Link.from_json, Link.from_element
    evaluate = LinkEvaluator.evaluate_link

    def read_json(data: dict[str, Any], *args: Any, **named: Any) -> Link | None:
        return rule.note(from_json(data, *args, **named), data.get("upload-time"))

    def read_html(data: dict[str, Any], *args: Any, **named: Any) -> Link | None:
        return rule.note(
            from_element(data, *args, **named), data.get("data-upload-time")
        )

    def judge(self: LinkEvaluator, link: Link) -> tuple[LinkType, str]:
        kind, detail = evaluate(self, link)
        name = re.sub(r"[-_.]+", "-", self.project_name).lower()
        if kind == LinkType.candidate and rule.refuses(link, name, detail):
            return LinkType.platform_mismatch, "uploaded too short a time ago"
        return kind, detail

    for owner, name, function in (
        (Link, "from_json", staticmethod(read_json)),
        (Link, "from_element", staticmethod(read_html)),
        (LinkEvaluator, "evaluate_link", judge),
    ):
        setattr(owner, name, function)


def main() -> None:
    files = [file for pattern in LOCKS for file in ROOT.glob(pattern)]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    locked = set(re.findall(r"sha256:([0-9a-f]{64})", text))
    fresh = set(os.environ.get("FRESH", "").lower().split())
    rule = CoolDown(datetime.fromtimestamp(time.time(), UTC), locked, fresh)
    install(rule)
    sys.argv = sys.argv[1:]
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except InstallationError as error:  # pip reports it, pip-compile does not
        raise SystemExit(f"noetl: {error}") from None
    finally:
        sys.stderr.writelines(sorted(rule.said))


if __name__ == "__main__":
    main()
