"""How fast NoETL is on this machine, beside what the machine itself can do."""
