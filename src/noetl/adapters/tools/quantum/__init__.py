"""Kind `quantum`: jobs on a quantum computer or simulator."""
