"""The live view of a run: events are folded here, and drawn on a terminal."""
