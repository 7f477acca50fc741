"""Formats rows of features as text, as Markdown, and as a column of the table on a page. Does no file I/O."""

HEAD = ["feature", "cases"]


def as_text(rows):
    """Returns the table for a terminal, with the reasons for known differences as notes."""
    width = max(len(row.feature) for row in rows)
    lines = [f"{'FEATURE':{width}}  CASES  RESULT"]
    lines += [f"{row.feature:{width}}  {row.cases:5}  {row.short}" for row in rows]
    notes = [f"{row.feature}: {reason}." for row in rows for reason in row.reasons]
    if notes:
        lines += ["", "Known and intended differences:", *notes]
    return "\n".join(lines)


def summary(rows):
    """Returns one line that counts the features by their status."""
    counts = {}
    for row in rows:
        counts[row.status] = counts.get(row.status, 0) + 1
    return f"{len(rows)} features: " + ", ".join(f"{count} {status}" for status, count in counts.items())


def table_line(cells):
    return "| " + " | ".join(cells) + " |"


def as_markdown(rows, column):
    """Returns a table with one column of results."""
    lines = [table_line([*HEAD, column]), "|---|---|---|"]
    return "\n".join([*lines, *(table_line([row.feature, str(row.cases), row.text]) for row in rows)])


def find_table(lines):
    """Returns the first and the end line number of the features table on a page."""
    begin = next((n for n, line in enumerate(lines) if line.startswith(table_line(HEAD))), None)
    if begin is None:
        raise LookupError("the page has no table that begins with " + table_line(HEAD))
    end = next((n for n in range(begin, len(lines)) if not lines[n].startswith("|")), len(lines))
    return begin, end


def read_cells(line):
    return line.strip("| ").split(" | ")


def with_column(document, rows, column):
    """Returns the page after writing the given results into a column of its table. Adds the column if it is missing.

    The other columns do not change. For a new feature, their cells are empty.
    """
    lines = document.split("\n")
    begin, end = find_table(lines)
    columns = read_cells(lines[begin])
    known = {cells[0]: dict(zip(columns, cells)) for cells in map(read_cells, lines[begin + 2:end])}
    if column not in columns:
        columns.append(column)
    table = [table_line(columns), "|" + "---|" * len(columns)]
    for row in rows:
        cells = known.get(row.feature, {}) | {"feature": row.feature, "cases": str(row.cases), column: row.text}
        table.append(table_line([cells.get(name, "–") for name in columns]))
    return "\n".join([*lines[:begin], *table, *lines[end:]])


def stale_lines(document, rows, column):
    """Returns the old and new lines where the page's column differs from the given results."""
    before, after = document.split("\n"), with_column(document, rows, column).split("\n")
    gone, new = [line for line in before if line not in after], [line for line in after if line not in before]
    return [f"- {line}" for line in gone] + [f"+ {line}" for line in new]
