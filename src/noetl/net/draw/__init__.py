"""Pictures of a net: text for other programs to draw, and one drawn here."""
