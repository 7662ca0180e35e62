"""Where sessions are kept: NATS Key/Value in a cluster, SQLite on one machine."""
