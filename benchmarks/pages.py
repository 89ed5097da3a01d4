"""Figures go into the documentation by program, between two marks, never by hand."""

from __future__ import annotations

from pathlib import Path

END = "<!-- end -->"


def renew(page: Path, program: str, text: str) -> None:
    """Put what a program measured between the page's marks for it."""
    begin = f"<!-- begin: benchmarks/{Path(program).name} -->"
    before, mark, rest = page.read_text(encoding="utf-8").partition(begin)
    if not mark:
        message = f"{page} has no line {begin}"
        raise SystemExit(message)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{END}{after}", encoding="utf-8")
