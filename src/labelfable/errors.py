"""What labelfable raises: what was wrong, where, and what to try."""

from __future__ import annotations


class LabelfableError(Exception):
    """Base of all errors of this package: one message of the form *what, where; hint*."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what = what
        self.where = where
        self.hint = hint
        place = f" ({where})" if where else ""
        advice = f". {hint}" if hint else ""
        super().__init__(f"{what}{place}{advice}")

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the three parts across processes: a worker's error must read like a local one."""
        return (_rebuild, (type(self), self.what, self.where, self.hint))


def _rebuild(kind: type[LabelfableError], what: str, where: str, hint: str) -> LabelfableError:
    return kind(what, where=where, hint=hint)


class InputError(LabelfableError, ValueError):
    """Votes, gold labels or features that cannot be used as they are."""


class ModelError(LabelfableError, ValueError):
    """A model that cannot be fitted to these votes, or a setting that contradicts them."""


class FileError(LabelfableError, OSError):
    """A file that is missing, damaged, or not ours."""

    def __str__(self) -> str:
        """The message itself: OSError would format its arguments as an errno."""
        return str(self.args[0])


class EngineError(LabelfableError, RuntimeError):
    """A cluster that failed in the middle of its work."""


class MissingExtraError(LabelfableError, ImportError):
    """A feature whose optional dependency is not installed."""


class LabelfableWarning(UserWarning):
    """Base of all warnings of this package."""


class VanishedClassWarning(LabelfableWarning):
    """A class that has votes ended up with no item: the fit has probably collapsed."""


class NotConvergedWarning(LabelfableWarning):
    """The fit used all its iterations before it met its tolerance."""
