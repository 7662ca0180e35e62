"""Large values: references, spilling, and an in-memory store."""
