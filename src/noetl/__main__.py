"""``python -m noetl``: the command line without the entry point."""

from noetl.clictl import main

if __name__ == "__main__":
    main()
