"""What a command asks for without showing it: passwords, from a terminal or a pipe."""

from __future__ import annotations

import sys

import click

from noetl.errors import ConfigError

LARGEST = 64 * 1024


def read_password(whose: str) -> str:
    """Typed twice without echo, or the first line of standard input."""
    if sys.stdin.isatty():
        answer: str = click.prompt(
            f"password of {whose}", hide_input=True, confirmation_prompt=True, err=True
        )
        return answer
    data = sys.stdin.buffer.readline(LARGEST)
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError("standard input is not UTF-8 text") from None
    if not text:
        message = f"standard input has no password of {whose}: nothing was changed"
        raise ConfigError(f"{message}; give it as its first line")
    return text
