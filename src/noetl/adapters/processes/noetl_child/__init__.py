"""Child side: the launcher, and user code in processes forked from it.

It uses little of the standard library and nothing else: it is started outside of
NoETL, with ``-I``, and each import delays the first call.
"""
