"""Output of commands: diagnostics, tables, progress, reports."""

from __future__ import annotations

from noetl.types import JSON


def value_text(value: JSON) -> str:
    """Return a value as YAML for people; what occurs twice is written twice."""
    import yaml

    class Writer(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    text: str = yaml.dump(value, Dumper=Writer, sort_keys=False, allow_unicode=True)
    return text
