"""paper_plot.py - small SVG plots for documents: lines or bars in panels side by side.

Colours are those of Okabe and Ito, which colour-blind people can tell apart; lines also differ in
dashes and markers, and bars are labelled. Text and axes follow the reader's light or dark scheme.
"""
import math

COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"]
DASHES = ["", "6 3", "2 2", "8 3 2 3", "1 3", "10 4"]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 330, 250, 46, 30, 12, 44
STYLE = """<style>
text{font:11px system-ui,sans-serif;fill:#222}.t{font-weight:600;font-size:12px}
.g{stroke:#ddd;stroke-width:1}.a{stroke:#555;stroke-width:1;fill:none}
@media (prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#444}.a{stroke:#aaa}}
</style>"""


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;")


def number(value):
    """A tick's label: 1200 as 1200, 0.5 as 0.5."""
    return f"{value:.10g}"


def ticks(low, high, log):
    if log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        return [10.0 ** n for n in range(first, last + 1)]
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 2.5, 5, 10) if (high - low) / (step * m) <= 6)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


class Panel:
    """Axes of one panel; (x, y) in data units become positions in the drawing."""

    def __init__(self, at, title, x, y, xs, ys, log=False):
        self.x0, self.title, self.xname, self.yname = at * WIDTH, title, x, y
        self.xs, self.ys, self.log, self.out = xs, ys, log, []

    def px(self, x):
        low, high = self.xs
        if self.log:
            x, low, high = math.log10(x), math.log10(low), math.log10(high)
        return self.x0 + LEFT + (x - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def py(self, y):
        low, high = self.ys
        return HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, text, extra=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(text)}</text>')

    def axes(self, xticks=True):
        left, right = self.x0 + LEFT, self.x0 + WIDTH - RIGHT
        self.text(left, 16, self.title, 'class="t"')
        for y in ticks(*self.ys, False):
            at = self.py(y)
            self.out.append(f'<path class="g" d="M{left:.1f} {at:.1f}H{right:.1f}"/>')
            self.text(left - 5, at + 4, number(y), 'text-anchor="end"')
        for x in ticks(*self.xs, self.log) if xticks else []:
            at = self.px(x)
            self.out.append(f'<path class="a" d="M{at:.1f} {HEIGHT - BOTTOM}v4"/>')
            self.text(at, HEIGHT - BOTTOM + 16, number(x), 'text-anchor="middle"')
        self.out.append(f'<path class="a" d="M{left} {TOP}V{HEIGHT - BOTTOM}H{right}"/>')
        self.text((left + right) / 2, HEIGHT - 10, self.xname, 'text-anchor="middle"')
        middle = (TOP + HEIGHT - BOTTOM) / 2
        self.text(self.x0 + 12, middle, self.yname,
                  f'text-anchor="middle" transform="rotate(-90 {self.x0 + 12} {middle})"')

    def stroke(self, i, path):
        self.out.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[i]}" stroke-width="2" '
                        f'stroke-dasharray="{DASHES[i]}"/>')

    def mark(self, i, x, y):
        self.out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[i]}"/>')

    def legend(self, series, corner):
        x = self.x0 + (LEFT + 10 if "left" in corner else WIDTH - RIGHT - 118)
        y = HEIGHT - BOTTOM - 13 * len(series) - 2 if "lower" in corner else TOP + 12
        for i, (name, points) in enumerate(series):
            if len(points) > 2:
                self.stroke(i, f"{x} {y + 13 * i - 4}h20")
            else:
                self.mark(i, x + 10, y + 13 * i - 4)
            self.text(x + 25, y + 13 * i, name)

    def line(self, i, points):
        """Two points or one are not joined: between them nothing is known."""
        at = [(self.px(x), self.py(y)) for x, y in points]
        if len(at) > 2:
            self.stroke(i, "L".join(f"{x:.1f} {y:.1f}" for x, y in at))
        for x, y in at if len(at) < 12 else []:
            self.mark(i, x, y)


def lines(at, title, x, y, series, xs, ys, log=False, corner="lower right"):
    """A panel of lines: `series` has a name and points each."""
    panel = Panel(at, title, x, y, xs, ys, log)
    panel.axes()
    for i, (_, points) in enumerate(series):
        panel.line(i, points)
    panel.legend(series, corner)
    return panel


def bars(at, title, y, groups, names, ys):
    """A panel of bars: `groups` has a label and one value (or None) for each name."""
    panel = Panel(at, title, "", y, (0, len(groups)), ys)
    panel.axes(False)
    width = 0.8 / len(names)
    for g, (label, values) in enumerate(groups):
        panel.text(panel.px(g + 0.5), HEIGHT - BOTTOM + 16, label, 'text-anchor="middle"')
        for i, value in enumerate(values):
            if value is None:
                continue
            x, top = panel.px(g + 0.1 + width * i), panel.py(value)
            panel.out.append(f'<rect x="{x:.1f}" y="{top:.1f}" fill="{COLOURS[i]}" '
                             f'width="{panel.px(width) - panel.px(0) - 1:.1f}" '
                             f'height="{HEIGHT - BOTTOM - top:.1f}"/>')
    for i, name in enumerate(names):
        x = panel.x0 + LEFT + 4 + i * (WIDTH - LEFT - RIGHT) / len(names)
        panel.out.append(f'<rect x="{x:.1f}" y="{HEIGHT - 19}" width="9" height="9" '
                         f'fill="{COLOURS[i]}"/>')
        panel.text(x + 13, HEIGHT - 11, name)
    return panel


def write(path, panels, about):
    width = WIDTH * len(panels)
    body = "\n".join(line for panel in panels for line in panel.out)
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
                   f'width="{width}" role="img"><title>{escape(about)}</title>{STYLE}\n{body}\n'
                   "</svg>\n")
