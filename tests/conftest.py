"""Plugins of the whole test suite; fixtures live beside the tests that use them."""

pytest_plugins = [
    "async_tests",
    "browser",
    "conformance",
    "databases",
    "garbage",
    "nats_servers",
    "pytester",
    "s3_peer",
    "secret_peer",
    "warm_start",
]
