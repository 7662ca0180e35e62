"""NATS between the servers of a cluster."""
