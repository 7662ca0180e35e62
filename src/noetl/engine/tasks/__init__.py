"""Tasks: the pipeline, policies, outcomes, scopes."""
