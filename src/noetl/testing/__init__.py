"""Tests for playbooks: scripted tools, virtual time, expectations. Pure."""
