"""The parts of a cluster that other programs are: found, started and stopped."""
