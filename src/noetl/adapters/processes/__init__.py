"""Processes for code of playbooks: started, limited, supervised and ended."""
