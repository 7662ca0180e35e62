"""Network policy for every connection that a playbook can direct."""

from noetl.adapters.network.network import BlockedAddress, Endpoint, Network

__all__ = ["BlockedAddress", "Endpoint", "Network"]
