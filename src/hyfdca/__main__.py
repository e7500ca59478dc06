"""``python -m hyfdca`` is the command ``hyfdca``."""

from hyfdca.cli.main import main

if __name__ == "__main__":
    main()
