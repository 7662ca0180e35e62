"""Plugins of the whole test suite; fixtures live beside the tests that use them."""

import os
import signal

# A shell starts background jobs with Ctrl-C ignored; commands would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Interpreters of tests are those of a plain shell, so that any may be forked warm.
for name in [*os.environ]:
    if name.startswith(("PYTHON", "LC_", "LANG")):
        del os.environ[name]

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
