"""Where large results are kept: the home's folder, or a plug-in by its URL's scheme."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.plugins.enabled import how_to_enable
from noetl.adapters.plugins.guards import GuardedBlobs
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import ConfigError
from noetl.plugins import ResultPlugin
from noetl.ports import Blobs


def open_results(
    url: str | None, folder: Path, plugins: Mapping[str, ResultPlugin]
) -> Blobs:
    """``folder`` is where they are without a URL. Raises ``ConfigError``."""
    if url is None:
        return FileBlobs(folder)
    scheme = url.partition(":")[0]
    if scheme not in plugins:
        hint = how_to_enable("results", scheme) or did_you_mean(scheme, plugins)
        hint = hint or "no enabled plug-in brings a store"
        raise ConfigError(f"results: nothing can keep them in '{scheme}:…'; {hint}")
    return GuardedBlobs(plugins[scheme], url)
