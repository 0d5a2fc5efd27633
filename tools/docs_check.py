"""Refuse built documentation that loads a script, a style, a font or an image from another site.

    python tools/docs_check.py docs/_build/html

Pages must show whole without a network. Links for people to follow may lead anywhere.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "embed": "src",
    "link": "href",
}
ELSEWHERE = re.compile(r"(https?:)?//")
STYLE = re.compile(r"""(?:url\(|@import)\s*['"]?((?:https?:)?//[^'")\s;]+)""")


class Page(HTMLParser):
    """What a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded = STYLE.findall(text)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what this element makes a browser fetch."""
        values = dict(attrs)
        address = values.get(LOADS.get(tag, "")) or ""
        fetched = tag != "link" or values.get("rel") not in ("canonical", "alternate", "license")
        if fetched and ELSEWHERE.match(address):
            self.loaded.append(address)


def main() -> None:
    folder = Path(sys.argv[1])
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        sys.exit(f"{folder} has no pages; run sphinx-build first")
    problems = [
        f"{path}: {address}"
        for path in pages
        for address in Page(path.read_text(encoding="utf-8")).loaded
    ]
    for path in sorted(folder.rglob("*.css")):
        problems += [
            f"{path}: {address}" for address in STYLE.findall(path.read_text(encoding="utf-8"))
        ]
    if problems:
        sys.exit("loaded from other sites:\n" + "\n".join(problems))
    print(f"{len(pages)} pages load nothing from other sites")


if __name__ == "__main__":
    main()
