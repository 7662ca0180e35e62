"""The language as data: which keys a playbook has, their types, rows and words."""
