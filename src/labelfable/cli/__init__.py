"""The command line.  Nothing here is imported by `import labelfable`."""

from labelfable.cli import bench, datasets  # their commands join the app
from labelfable.cli.commands import app, main
from labelfable.cli.explain import EXAMPLE, explain

app.command(epilog=EXAMPLE)(explain)

__all__ = ["app", "bench", "datasets", "main"]
