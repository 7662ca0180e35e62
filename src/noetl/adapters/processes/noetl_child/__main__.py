"""Entry: ``python -I __main__.py launch|serve <parent>``.

The package has a unique name and its folder is removed from ``sys.path``, so that its
modules do not conflict with those of the user.
"""

import importlib
import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    _role = importlib.import_module(f"noetl_child.{sys.argv[1]}")
    del sys.path[0]
    _role.main(int(sys.argv[2]))
