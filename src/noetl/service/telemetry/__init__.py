"""What a server tells monitoring: durations of steps, and the export of events."""
