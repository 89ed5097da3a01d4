"""`python -m labelfable`: the command line."""

from labelfable.cli import main

main()
