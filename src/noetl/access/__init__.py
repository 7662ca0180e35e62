"""Who may do what: roles, principals, tokens, sessions, and what browsers may send."""
