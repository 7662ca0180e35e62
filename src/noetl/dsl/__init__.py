"""Text to model: reads, normalizes, validates and lints playbooks; no I/O."""
