"""Run the command line as `python -m pgbill`."""

from pgbill.cli import main

if __name__ == "__main__":
    main()
