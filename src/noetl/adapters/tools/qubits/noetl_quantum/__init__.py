"""What runs on the other side: a simulator, in a process that can be killed.

Circuits are somebody's text, and simulating one takes memory that doubles with every
qubit. Neither belongs into the process of the engine.
"""
