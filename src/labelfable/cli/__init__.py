"""The command line.  Nothing here is imported by `import labelfable`."""

from labelfable.cli.commands import app, main

__all__ = ["app", "main"]
