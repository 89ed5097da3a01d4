"""The command line.  Nothing here is imported by `import labelfable`."""

from labelfable.cli.bench import app  # with the commands of both files
from labelfable.cli.commands import main

__all__ = ["app", "main"]
