"""Child side: DuckDB in a process that can be limited and killed.

DuckDB's own limits do not cover everything: a single ``repeat`` takes gigabytes beyond
its memory limit and ignores interrupts. The limits of a process always hold.
"""
