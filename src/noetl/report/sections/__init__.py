"""The parts of the page, from top to bottom."""
