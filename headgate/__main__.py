"""``python -m headgate``: the command line."""

from headgate.cli import main

if __name__ == "__main__":
    main()
