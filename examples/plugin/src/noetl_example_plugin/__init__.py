"""A tool kind, a keychain kind and a result store, each in a file of its own."""
