"""Accounts, authentication and sign-in."""
