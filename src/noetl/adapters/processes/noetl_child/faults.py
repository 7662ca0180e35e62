"""Errors of user code, with the frames of the user alone."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

OURS = os.path.dirname(os.path.abspath(__file__))
CODE = "<code>"
TEXT = 8192
FRAMES = 20
CAUSES = 5
DISTRIBUTIONS = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "PIL": "pillow",
    "psycopg2": "psycopg2-binary",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Packages whose distributions have other names than their modules."""
_NO_ROOM = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)


class Misfit(Exception):
    """A parameter, a module or a function of the call is missing."""


def fault(kind: str, message: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "message": clean(message), **more}


def explain(
    error: BaseException, folder: str, source: str | None = None
) -> dict[str, Any]:
    """Describe an exception: type, message, line and the user's frames."""
    name = type(error).__name__
    if isinstance(error, MemoryError):
        return fault("tool.memory", f"{name}: the code needed too much memory")
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        why = "a file grew above spec.disk"
        if error.errno != errno.EFBIG:
            why = "the disk is full"
        return fault("tool.disk", f"{name}: {why}", type=name)
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(bool(error.code))
        message = f"the code called exit({said(error.code)})"
        kind = "tool.exit" if code else "tool.contract"  # there is no result
        return fault(kind, message, type=name, exit_code=code)
    frames = own_frames(error, folder, source)
    line = next((line for file, line, _, _ in reversed(frames) if file == CODE), None)
    text = said(error)
    message = f"{name}: {text}" if text else name
    if line is not None and not isinstance(error, SyntaxError):
        message += f" (line {line} of the code)"
    if isinstance(error, ModuleNotFoundError):
        message += how_to_install(error.name)
    trace = "\n".join(story(error, folder, source))
    return fault(
        "tool.exception", message, type=name, line=line, traceback=clean(trace)
    )


def how_to_install(module: str | None) -> str:
    """Return the command that installs the package of a missing module; nothing for a
    missing part of a package that is there."""
    name = (module or "").partition(".")[0]
    if not name or name in sys.modules:
        return ""
    package = DISTRIBUTIONS.get(name, name.replace("_", "-"))
    install = f"{sys.executable} -m pip install {package}"
    return f"; the code runs with {sys.executable}; install it there: {install}"


def story(error: BaseException, folder: str, source: str | None) -> list[str]:
    """Return the lines of a traceback with the chain of causes, oldest first."""
    lines: list[str] = []
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < CAUSES and link not in chain:
        chain.append(link)
        link = link.__cause__ or (
            None if link.__suppress_context__ else link.__context__
        )
    for each in reversed(chain):
        frames = own_frames(each, folder, source)
        if len(frames) > FRAMES:
            lines.append(f"  … {len(frames) - FRAMES} frames …")
        for file, line, function, text in frames[-FRAMES:]:
            lines.append(f'  File "{file}", line {line}, in {function}')
            if text:
                lines.append(f"    {text}")
        lines.append(f"{type(each).__name__}: {said(each)}")
    return lines


def own_frames(
    error: BaseException, folder: str, source: str | None
) -> list[tuple[str, int, str, str]]:
    """Return (file, line, function, text) of frames in the code or its folder."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == CODE:
            text = line_of(source, trace.tb_lineno)
            found.append((CODE, trace.tb_lineno, code.co_name, text))
        elif is_below(code.co_filename, folder) and not is_below(
            code.co_filename, OURS
        ):
            file = os.path.relpath(code.co_filename, folder)
            found.append((file, trace.tb_lineno, code.co_name, ""))
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == CODE:
        line = error.lineno or 0
        found.append((CODE, line, "<module>", line_of(source, line)))
    return found


def is_below(file: str, folder: str) -> bool:
    return file.startswith(folder.rstrip("/") + "/")


def line_of(source: str | None, line: int) -> str:
    lines = source.splitlines() if source else []
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""


def said(value: object) -> str:
    """Return the text of a value; ``__str__`` of user classes may fail."""
    try:
        return clean(str(value))
    except Exception as error:
        return f"(no text: {type(error).__name__})"


def clean(text: str) -> str:
    """Shorten a text, and make it encodable as UTF-8."""
    if len(text) > TEXT:
        text = f"{text[: TEXT // 2]} … {text[-TEXT // 2 :]}"
    return text.encode(errors="backslashreplace").decode()
