"""One file per question that the analysis asks."""
