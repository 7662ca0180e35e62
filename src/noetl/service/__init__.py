"""What a server does for its users: start, look, steer, register. No HTTP in it."""
