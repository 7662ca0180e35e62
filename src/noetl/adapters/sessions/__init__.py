"""Storage of sessions: NATS Key/Value in a cluster, SQLite on one machine."""
