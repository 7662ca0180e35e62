"""Throw requests at a real server; every answer must be one that it describes.

    python tests/security/fuzz/http_api.py --count 200000

Each call of the API gets its share of them, with a token and without. Checked: no 5xx,
statuses, media types and bodies as the OpenAPI document says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from api_fuzz import attack, make_known, operations
from servers import Api, Running


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Running(Path(folder) / "home")
        every = list(operations(server.url))
        share = max(1, options.count // (2 * len(every)))
        for operation in every:
            for token in (server.token, None):
                known = make_known(Api(server.url, server.token), operation.path)
                attack(operation, token, known, share)
        server.stop()
    sent = share * len(every) * 2
    print(f"{sent} requests to {len(every)} calls: all as described")
    return 0


if __name__ == "__main__":
    sys.exit(main())
