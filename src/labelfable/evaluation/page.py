"""A page that needs nothing but itself: tables and charts in one HTML file, for any screen, light or dark."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STYLE = """
:root { color-scheme: light dark; --paper: #fbfbf9; --ink: #1d2226; --soft: #646c73; --line: #dfe1de; --card: #fff;
  --accent: #1f6f8b; --accent-soft: #d3e5eb; --good: #1d7a46; --bad: #b3392f; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181b; --ink: #e6e8e6; --soft: #98a2a9; --line: #2c3338;
  --card: #1a1f23; --accent: #6cc0da; --accent-soft: #22424d; --good: #6bcf95; --bad: #f08b80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.75rem 0 .35rem; }
p { margin: .35rem 0 .9rem; max-width: 46rem; }
.soft, caption, footer { color: var(--soft); font-size: .875rem; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem 2.25rem; margin: 1.25rem 0 0; padding: 0; }
.facts div { display: flex; flex-direction: column-reverse; }
.facts dt { color: var(--soft); font-size: .8rem; }
.facts dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .9rem; }
th, td { padding: .5rem .8rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; }
tr:last-child > * { border-bottom: 0; }
thead th { color: var(--soft); font-weight: 500; font-size: .8rem; vertical-align: bottom; }
th:first-child, td.text, th.text { text-align: left; }
tbody th { font-weight: 500; white-space: nowrap; position: sticky; left: 0; background: var(--card); }
tr.chosen > * { background: var(--accent-soft); }
td.text { min-width: 15rem; color: var(--soft); }
td small { display: block; color: var(--soft); }
td small.good { color: var(--good); } td small.bad { color: var(--bad); }
.bar { display: block; height: 4px; margin-top: 4px; border-radius: 2px; background: var(--line); min-width: 3.5rem; }
.bar i { display: block; height: 100%; border-radius: 2px; background: var(--accent); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(17rem, 100%), 1fr)); gap: 1rem;
  margin-bottom: 1rem; }
figure { margin: 0; padding: 1rem; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
figcaption { font-size: .875rem; margin-bottom: .5rem; }
figcaption span { color: var(--soft); display: block; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--line); fill: none; } .curve { stroke: var(--accent); stroke-width: 2; fill: none; }
.dot { fill: var(--accent); fill-opacity: .75; } .guide { stroke: var(--soft); stroke-dasharray: 3 4; fill: none; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
@media print { body { background: #fff; } .scroll { overflow: visible; } }
"""
WIDTH, HEIGHT = 320, 210  # of a chart
LEFT, TOP, RIGHT, BOTTOM = 56, 10, 310, 180  # of the frame inside it


def tag(name: str, *content: str, **attributes: object) -> str:
    """An element around content that is HTML already.  Attributes that are None are left out; `class_` is class."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(content)}</{name}>"


@dataclass(frozen=True)
class Cell:
    """One entry of a table."""

    text: str
    under: str = ""
    """A second, smaller line."""
    tone: str = ""
    """`good` or `bad`: the colour of the second line."""
    share: float | None = None
    """Drawn as a bar, 0 to 1."""
    is_text: bool = False

    def html(self) -> str:
        """The table cell."""
        under = tag("small", escape(self.under), class_=self.tone or None) if self.under else ""
        bar = ""
        if self.share is not None:
            bar = tag("span", tag("i", style=f"width:{100 * self.share:.1f}%"), class_="bar")
        return tag("td", escape(self.text), under, bar, class_="text" if self.is_text else None)


def page(title: str, lede: str, sections: Sequence[str], footer: str) -> str:
    """A whole document."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
    )
    last = tag("footer", escape(footer)) if footer else ""
    body = tag("main", tag("h1", escape(title)), tag("p", escape(lede)), *sections, last)
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def section(title: str, text: str, *parts: str) -> str:
    """A heading, a sentence or two, and what they announce."""
    return tag("section", tag("h2", escape(title)), paragraph(text), *parts)


def paragraph(text: str) -> str:
    """A remark."""
    return tag("p", escape(text), class_="soft")


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """A row of figures, each with its name below."""
    return tag("dl", *(tag("div", tag("dt", escape(k)), tag("dd", escape(v))) for k, v in pairs), class_="facts")


def table(header: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]], chosen: str = "") -> str:
    """A table whose first column names the rows; the row called `chosen` stands out."""
    texts = [True, *(cell.is_text for cell in rows[0][1])]
    heads = [
        tag("th", escape(name), scope="col", class_="text" if is_text else None)
        for name, is_text in zip(header, texts, strict=True)
    ]
    lines = [
        tag(
            "tr",
            tag("th", escape(name), scope="row"),
            *(cell.html() for cell in cells),
            class_="chosen" if name == chosen else None,
        )
        for name, cells in rows
    ]
    content = tag("thead", tag("tr", *heads)) + tag("tbody", *lines)
    return tag("div", tag("table", content), class_="scroll", tabindex=0)


def charts(*figures: str) -> str:
    """Charts side by side where there is room."""
    return tag("div", *figures, class_="charts")


def figure(title: str, text: str, svg: str) -> str:
    """A chart with its caption."""
    return tag("figure", tag("figcaption", escape(title), tag("span", escape(text))), svg)


def curve(values: Sequence[float]) -> str:
    """A line through values in their order; lowest and highest are named at the side, the number of values below."""
    low, high = min(values), max(values)
    spread, steps = (high - low) or 1.0, max(len(values) - 1, 1)
    points = [_place(n / steps, (value - low) / spread) for n, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return _frame(
        tag("polyline", class_="curve", points=line) + _dot(points[-1], 4),
        ("1", str(len(values))),
        (_short(low), _short(high)),
    )


def scatter(points: Sequence[tuple[float, float, float]]) -> str:
    """Dots (x, y, weight) in the unit square with its diagonal; a dot's area grows with its weight."""
    heaviest = max(weight for _, _, weight in points)
    dots = [_dot(_place(x, y), 2.5 + 6.5 * (weight / heaviest) ** 0.5) for x, y, weight in points]
    diagonal = tag("path", class_="guide", d=f"M{LEFT} {BOTTOM}L{RIGHT} {TOP}")
    return _frame(diagonal + "".join(dots), ("0", "1"), ("0", "1"))


def _place(x: float, y: float) -> tuple[float, float]:
    """A point of the unit square on the chart."""
    return LEFT + (RIGHT - LEFT) * x, BOTTOM - (BOTTOM - TOP) * y


def _dot(place: tuple[float, float], radius: float) -> str:
    return tag("circle", class_="dot", cx=f"{place[0]:.1f}", cy=f"{place[1]:.1f}", r=f"{radius:.1f}")


def _frame(drawn: str, across: tuple[str, str], up: tuple[str, str]) -> str:
    """Two axes, each with its first and last value."""
    axes = tag("path", class_="grid", d=f"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}")
    words = (
        tag("text", across[0], x=LEFT, y=BOTTOM + 18)
        + tag("text", across[1], x=RIGHT, y=BOTTOM + 18, text_anchor="end")
        + tag("text", up[0], x=LEFT - 6, y=BOTTOM, text_anchor="end")
        + tag("text", up[1], x=LEFT - 6, y=TOP + 9, text_anchor="end")
    )
    return tag("svg", axes, drawn, words, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img")


def _short(value: float) -> str:
    """A few characters, so that it fits beside a chart."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"
