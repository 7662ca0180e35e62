"""Access control: roles, principals, tokens, sessions and browser checks, without
I/O."""
