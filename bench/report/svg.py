"""Plots as SVG: a bar for the median of each contender, and a dot for each of its rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT, ROW = 860, 240, 90, 30


@dataclass(frozen=True)
class Line:
    """One contender."""

    label: str
    peer: str
    median: float
    rounds: Sequence[tuple[float, bool]]
    """A figure, and whether it was disturbed."""


def bars(title: str, unit: str, lines: Sequence[Line]) -> str:
    """A plot of all of them, from zero."""
    top = max((value for line in lines for value, _ in line.rounds), default=0) or 1
    room = WIDTH - LEFT - RIGHT
    height = ROW * len(lines) + 26
    found = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
    ]
    for number, line in enumerate(lines):
        y = number * ROW + 4
        middle = y + ROW / 2 - 3
        width = room * line.median / top
        found.append(f'<text x="{LEFT - 10}" y="{middle + 4}" class="label">{escape(line.label)}</text>')
        found.append(f'<rect x="{LEFT}" y="{y + 2}" width="{width:.1f}" height="{ROW - 10}" class="bar {line.peer}"/>')
        for value, disturbed in line.rounds:
            kind = "dot disturbed" if disturbed else "dot"
            found.append(f'<circle cx="{LEFT + room * value / top:.1f}" cy="{middle}" r="3.2" class="{kind}"/>')
        furthest = max([line.median, *(value for value, _ in line.rounds)])
        x = LEFT + room * furthest / top + 9
        found.append(f'<text x="{x:.1f}" y="{middle + 4}" class="figure">{figure(line.median)}</text>')
    base = ROW * len(lines) + 4
    found.append(f'<line x1="{LEFT}" y1="2" x2="{LEFT}" y2="{base}" class="axis"/>')
    found.append(f'<text x="{LEFT}" y="{base + 15}" class="unit">{escape(unit)}; dots are rounds</text></svg>')
    return "\n".join(found)


def figure(value: float) -> str:
    """A number with three digits that count, and no exponent."""
    if value >= 1_000_000:
        return f"{value / 1e6:.2f} M"
    if value >= 10_000:
        return f"{value / 1e3:.0f} k"
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
