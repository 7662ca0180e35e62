"""``script: {uri, source}``: text that is fetched when the task runs."""

from __future__ import annotations

from noetl.dialects.classic.nodes import changed
from noetl.dialects.classic.task import Task
from noetl.dialects.classic.transfers import by_keychain

_CANONICAL = {
    "python": "code: …, or module: and function: of a file beside the playbook",
    "postgres": "command: … with the SQL",
    "duckdb": "command: … with the SQL",
    "shell": "script: … with the text",
    "script": "script: … with the text",
}


def rewrite_script(task: Task) -> None:
    script = task.get("script")
    if script is None or not script.is_mapping:
        return
    kind = task.node.entries["kind"].value
    task.accept("script", "a 'script' with a 'uri'", _CANONICAL[kind])
    if "uri" not in script.entries:
        task.refuse("script", "the script has no 'uri'", "add uri: path/of/the/file")
    source = script.entries.get("source")
    if source is not None:
        task.change({"script": changed(script, {"source": by_keychain(source)})})
    task.set_spec("dialect", "classic")
