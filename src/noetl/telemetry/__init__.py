"""Traces, spans and rows of events for other systems: pure, without I/O."""
