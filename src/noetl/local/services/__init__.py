"""Background services of a local cluster: PostgreSQL and NATS."""
