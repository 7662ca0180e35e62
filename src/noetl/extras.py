"""Extras of the distribution: the command that adds one to this installation."""

from __future__ import annotations

DISTRIBUTION = "noetl-engine"
"""Name of NoETL for pip; ``noetl`` on PyPI is another package."""


def install_command(extra: str) -> str:
    """Return the pip command that installs an extra, as NoETL itself was installed.

    That is from the folder of a checkout, editable or not, or else by name.
    """
    import shlex

    folder, editable = _find_source()
    wanted = shlex.quote(f"{folder or DISTRIBUTION}[{extra}]")
    return f"pip install {'-e ' if editable else ''}{wanted}"


def _find_source() -> tuple[str | None, bool]:
    """The folder that NoETL was installed from, and whether it is used in place."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return None, False
    origin = json.loads(text or "{}")
    if "dir_info" not in origin:
        return None, False
    folder = unquote(urlsplit(origin["url"]).path)
    return folder, bool(origin["dir_info"].get("editable"))
