"""Drawings of a net: text for other programs, and an SVG picture."""
