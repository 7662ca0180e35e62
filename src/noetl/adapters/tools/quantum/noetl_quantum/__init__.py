"""Child side: a simulator in a process that can be killed.

A simulation takes memory that doubles with every qubit, and circuits are untrusted
text, so it must not run in the process of the engine.
"""
