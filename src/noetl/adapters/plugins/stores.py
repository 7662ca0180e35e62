"""Where large results are kept: by the home, a cloud, or a plug-in for the scheme."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.adapters.blobs.addresses import SCHEMES, open_known
from noetl.adapters.plugins.enabled import how_to_enable
from noetl.adapters.plugins.results import GuardedBlobs
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import ConfigError
from noetl.plugins import ResultPlugin
from noetl.ports import Blobs


def open_blobs(
    address: str | None,
    folder: str,
    drafts: str,
    home: str,
    plugins: Mapping[str, ResultPlugin],
) -> Blobs:
    """``folder`` is where they are without an address; ``home`` says who asks.

    Raises ``ConfigError``.
    """
    scheme = (address or "").partition(":")[0]
    if address is None or scheme in SCHEMES:
        return open_known(address, folder, drafts, home)
    if scheme not in plugins:
        known = SCHEMES | plugins.keys()
        hint = how_to_enable("results", scheme) or did_you_mean(scheme, known)
        hint = hint or f"known are {', '.join(sorted(known))}"
        raise ConfigError(f"results_url: nothing keeps results in '{scheme}:…'; {hint}")
    return GuardedBlobs(plugins[scheme], address, drafts)
