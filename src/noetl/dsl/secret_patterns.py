"""Patterns of secrets in text, to detect and mask them."""

from __future__ import annotations

import re

_SHAPES = re.compile(
    r"AKIA[0-9A-Z]{16}"
    r"|ASIA[0-9A-Z]{16}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}"
    r"|\bgithub_pat_[A-Za-z0-9_]{30,}"
    r"|\bglpat-[A-Za-z0-9_-]{20,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\bsk_live_[A-Za-z0-9]{16,}"
    r"|\bAIza[0-9A-Za-z_-]{35}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"
    r"|://[^/\s:@]+:[^/\s:@]{3,}@"
)
SECRET_KEY = re.compile(
    r"(?i)(\A|[_-])(password|passwd|secret|api_?key|access_?key|private_?key|token)\Z"
)
_NAMED_VALUE = re.compile(
    r"(?i)((?:password|passwd|secret|api_?key|access_?key|private_?key|token)"
    r"[\"']?\s*[:=]\s*)([\"']?)([^\s\"',}{\]\[]{6,})"
)


# Every pattern contains one of these substrings, which are cheap to search for.
_SIGNS = (
    "AKIA",
    "ASIA",
    "-----BEGIN",
    "gh",
    "glpat-",
    "xox",
    "sk",
    "AIza",
    "eyJ",
    "://",
)
_NAMES = ("passw", "secret", "key", "token")


def looks_secret(text: str) -> bool:
    return any(sign in text for sign in _SIGNS) and _SHAPES.search(text) is not None


def mask(text: str) -> str:
    """Return the text with everything that looks like a secret replaced by ``***``."""
    if any(sign in text for sign in _SIGNS):
        text = _SHAPES.sub("***", text)
    lowered = text.lower()
    if any(name in lowered for name in _NAMES):
        text = _NAMED_VALUE.sub(lambda found: f"{found[1]}{found[2]}***", text)
    return text
