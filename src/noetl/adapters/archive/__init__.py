"""Archives of removed executions: where their files are, and what is in them."""
