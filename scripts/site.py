"""Prepares the pages of the repository for mdbook, and checks the links of the resulting site.

usage: site.py stage FOLDER    writes book.toml and the sources of the site
       site.py check FOLDER    fails if a link or an image of the site leads nowhere

The site has the folder structure of the repository, so links between pages remain valid. docs/README.md determines the
order of the pages.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import unquote, urlsplit

INDEX = "docs/README.md"
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
# mdbook's preprocessors would rename README.md files and break the links to them, so they are disabled.
BOOK = """\
[book]
title = "Rowhouse"
language = "en"

[build]
use-default-preprocessors = false

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
smart-punctuation = false

[output.html.print]
enable = false
"""


def linked(page):
    """The files of the repository that a page links to, in its order."""
    for link in LINK.findall(Path(page).read_text()):
        if "://" not in link and not link.startswith("mailto:"):
            yield normpath(str(PurePosixPath(page).parent / unquote(link)))


def title(page):
    """Returns the first heading of a page."""
    return next(line[2:].strip() for line in Path(page).read_text().splitlines() if line.startswith("# "))


def summary(pages):
    """Returns the table of contents: the sections of the index, and the pages to which each section links."""
    lines, seen = ["# Summary", "", "[Rowhouse](README.md)", f"[All pages]({INDEX})"], {"README.md", INDEX}
    for part in re.split(r"^## ", Path(INDEX).read_text(), flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        lines += ["", f"# {heading}", ""]
        for link in LINK.findall(body):
            page = normpath(f"docs/{link}") if "://" not in link else ""
            if page in pages and page not in seen:
                seen.add(page)
                lines.append(f"- [{title(page)}]({page})")
    lines += ["", "# More", ""]
    lines += [f"- [{title(page)}]({page})" for page in pages if page not in seen]
    return "\n".join(lines) + "\n"


def stage(folder):
    """Copies the pages and the files that they link to."""
    tracked = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    pages = [file for file in tracked if file.endswith(".md") and not Path(file).is_symlink()]
    files = {file for page in pages for file in linked(page)}.intersection(tracked)
    source = folder / "src"
    for file in files.union(pages):
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, source / file)
    (source / "SUMMARY.md").write_text(summary(pages))
    (folder / "book.toml").write_text(BOOK)


class Page(HTMLParser):
    """The links of a page, and the anchors to which links can refer."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


def broken(folder):
    """Returns every broken local link, with its page."""
    pages = {path.resolve(): Page(path.read_text()) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        # The links of the page for missing pages depend on the requested URL, so skip them.
        for link in [] if path.name == "404.html" else page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file() or (parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors):
                yield f"{path.relative_to(folder.resolve())}: {link}"


def check(folder):
    problems = sorted(set(broken(folder)))
    if problems:
        sys.exit("\n".join([*problems, f"{len(problems)} broken links"]))
    print(f"{sum(1 for _ in folder.rglob('*.html'))} pages without broken links")


def main():
    commands = {"stage": stage, "check": check}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](Path(sys.argv[2]))


main()
