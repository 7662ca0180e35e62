"""Plugins of the whole test suite; fixtures live beside the tests that use them."""

pytest_plugins = [
    "browser",
    "conformance",
    "databases",
    "nats_servers",
    "pytester",
    "s3_peer",
    "secret_peer",
]
