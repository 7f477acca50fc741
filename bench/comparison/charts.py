"""Draws bar charts as SVG: sections of rows, with a bar for each of two programs in each row.

The colours are visible on light and dark backgrounds, and the text follows the viewer's colour scheme. The second
program's bars are also outlined, so that the programs can be distinguished without colours.
"""

import math
from html import escape

WIDTH, MARGIN = 920, 14
COLUMNS = 2
TITLE_HEIGHT, SECTION_HEIGHT, ROW_HEIGHT, BAR_HEIGHT, SECTION_GAP = 56, 26, 38, 14, 12
LABEL_WIDTH, VALUE_WIDTH = 118, 84

STYLE = (
    "text{font:12px sans-serif;fill:#6b7280}.h{font-weight:bold;font-size:14px}.s{font-weight:bold}"
    ".axis{stroke:#6b7280}.b0{fill:#2f7fd1}.b1{fill:#d97706;fill-opacity:.45;stroke:#d97706}"
    "@media(prefers-color-scheme:dark){text{fill:#c9d1d9}.axis{stroke:#c9d1d9}}"
    "@media(prefers-color-scheme:light){text{fill:#24292f}.axis{stroke:#24292f}}"
)


def draw(title, programs, sections, show, logarithmic):
    """Returns a chart of `sections`.

    Each section has a heading, and rows that consist of a label and two values. A string stands in for a missing value.

    `show` returns the label of a value. All sections have the same scale.
    """
    values = [value for _, rows in sections for _, pair in rows for value in pair if is_number(value)]
    scale = bar_scale(values, logarithmic)
    columns = min(COLUMNS, len(sections))
    width = (WIDTH - 2 * MARGIN) / columns
    parts, tops = [], [TITLE_HEIGHT] * columns
    for index, (heading, rows) in enumerate(sections):
        column = index % columns
        left = MARGIN + column * width
        parts += section(heading, rows, left, tops[column], width - SECTION_GAP, scale, show)
        tops[column] += SECTION_HEIGHT + len(rows) * ROW_HEIGHT + SECTION_GAP
    height = max(tops)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        text(MARGIN, 20, title + (", logarithmic scale" if logarithmic else ""), "h"),
    ]
    return "\n".join(head + legend(programs) + parts + ["</svg>"]) + "\n"


def is_number(value):
    return isinstance(value, (int, float))


def bar_scale(values, logarithmic):
    """Returns a function that maps a value to a fraction of the longest bar."""
    if not values:
        return lambda value: 0
    if not logarithmic:
        return lambda value: value / (max(values) or 1)
    low = 10 ** math.floor(math.log10(min(values)))
    decades = math.log10(max(values) / low)
    return lambda value: max(math.log10(value / low), 0.02) / max(decades, 1)


def legend(programs):
    parts, left = [], MARGIN
    for index, name in enumerate(programs):
        parts.append(f'<rect class="b{index}" x="{left}" y="32" width="14" height="10"/>')
        parts.append(text(left + 20, 41, name))
        left += 40 + 7 * len(name)
    return parts


def section(heading, rows, left, top, width, scale, show):
    parts = [text(left, top + 14, heading, "s")]
    start, longest = left + LABEL_WIDTH, width - LABEL_WIDTH - VALUE_WIDTH
    for number, (label, pair) in enumerate(rows):
        row = top + SECTION_HEIGHT + number * ROW_HEIGHT
        parts.append(text(start - 8, row + BAR_HEIGHT + 3, label, anchor="end"))
        for index, value in enumerate(pair):
            y = row + index * (BAR_HEIGHT + 1)
            length = scale(value) * longest if is_number(value) else 0
            if is_number(value):
                parts.append(f'<rect class="b{index}" x="{start:.1f}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT - 2}"/>')
            parts.append(text(start + length + 5, y + 10, show(value) if is_number(value) else value))
    bottom = top + SECTION_HEIGHT + len(rows) * ROW_HEIGHT - 6
    parts.append(f'<line class="axis" x1="{start:.1f}" x2="{start:.1f}" y1="{top + SECTION_HEIGHT - 3}" y2="{bottom}"/>')
    return parts


def text(x, y, content, style="", anchor=""):
    style = f' class="{style}"' if style else ""
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{style}{anchor} x="{x:.1f}" y="{y}">{escape(content)}</text>'
