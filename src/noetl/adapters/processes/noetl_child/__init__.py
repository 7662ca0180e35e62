"""What runs on the other side: the launcher, and user code in processes forked from it.

Only the standard library, and little of it: this is started outside of NoETL, with
``-I``, and whatever it imports is what each first call waits for.
"""
