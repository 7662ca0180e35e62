"""Grammar of playbooks as data: keys with their types, requirements and docs."""
