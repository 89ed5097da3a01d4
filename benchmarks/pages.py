"""Figures go into the documentation by program, between two marks, never by hand."""

from __future__ import annotations

from pathlib import Path

from labelfable.evaluation.benchmark import pages


def renew(page: Path, program: str, text: str) -> None:
    """Put what one of these programs measured between the page's marks for it."""
    pages.renew(page, f"benchmarks/{Path(program).name}", text)
