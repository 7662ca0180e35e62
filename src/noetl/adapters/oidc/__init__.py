"""OpenID Connect providers: what is asked of them, and how."""
