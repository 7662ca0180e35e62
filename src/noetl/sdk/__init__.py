"""NoETL from Python: run playbooks here, and use a server as its client."""
