"""Where this package keeps what can be got or computed again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "LABELFABLE_CACHE"


def cache_folder() -> Path:
    """The folder that LABELFABLE_CACHE names, else this user's cache folder on this platform.  It may not exist yet."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "labelfable"
