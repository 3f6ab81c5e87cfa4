"""python -m vicinal: the command line without its script."""

import sys

from vicinal.cli import main

if __name__ == "__main__":
    sys.exit(main())
