"""``shell``: several commands in order."""

from __future__ import annotations

from noetl.dialects.classic.nodes import made, text_of
from noetl.dialects.classic.scripts import rewrite_script
from noetl.dialects.classic.task import Task


def rewrite_shell(task: Task) -> None:
    cmds = task.get("cmds")
    if cmds is not None:
        task.accept("cmds", "'cmds'", "script: … with a line for each")
        lines = [text_of(each) for each in cmds.items]
        if text_of(cmds) is not None:
            text = str(cmds.value)
        elif lines and all(line is not None for line in lines):
            text = "\n".join(["set -e", *map(str, lines)])
        else:
            hint = "write cmds: [ls, pwd], or one block of text"
            task.refuse("cmds", "'cmds' must be text, or a list of texts", hint)
            text = ""
        task.change({"cmds": None, "script": made(text, cmds)})
    rewrite_script(task)
