"""The Markdown files of the project: their links, headings, code blocks and inline code."""

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

from helpers.paths import ROOT

_FOLDERS = ("docs", "h2htalk_datasets", "h2htalk_metric", "benchmarks", "tests", "notebooks", "cluster")
MARKDOWN_FILES = sorted([*ROOT.glob("*.md"), *(file for folder in _FOLDERS for file in (ROOT / folder).rglob("*.md"))])


@dataclass(frozen=True)
class CodeBlock:
    """A fenced code block.

    Attributes:
        language: as written after the fence, for example ``sh``; may be empty.
        text: its content.
        line: number of its first line in the file, from 1; front matter is not counted.

    """

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Page:
    """What the tests need of a Markdown file.

    Attributes:
        links: targets of links and images, as written.
        anchors: ids of headings, as GitHub makes them.
        blocks: fenced code blocks.
        inline_code: texts between backticks.
        kinds: types of the top-level blocks, in order, such as ``heading`` and ``fence``.

    """

    links: list[str]
    anchors: set[str]
    blocks: list[CodeBlock]
    inline_code: list[str]
    kinds: list[str]


@cache
def read_page(file: Path) -> Page:
    """Parse a file; YAML front matter is left out."""
    text = re.sub(r"\A---\n.*?\n---\n", "", file.read_text("utf-8"), flags=re.DOTALL)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or []]
    targets = [child.attrGet("href") or child.attrGet("src") for child in inline]
    titles = [token.content for before, token in pairwise(tokens) if before.type == "heading_open"]
    return Page(
        links=[str(target) for target in targets if target],
        anchors=_anchors(titles),
        blocks=[CodeBlock(t.info, t.content, (t.map or [0])[0] + 2) for t in tokens if t.type == "fence"],
        inline_code=[child.content for child in inline if child.type == "code_inline"],
        kinds=[t.type.removesuffix("_open") for t in tokens if t.level == 0 and not t.type.endswith("_close")],
    )


def _anchors(titles: list[str]) -> set[str]:
    """GitHub's ids: lower case, punctuation removed, spaces to hyphens, a number at a repeated title."""
    anchors: set[str] = set()
    for title in titles:
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        repeats = sum(name == anchor or re.fullmatch(rf"{re.escape(anchor)}-\d+", name) is not None for name in anchors)
        anchors.add(f"{anchor}-{repeats}" if repeats else anchor)
    return anchors
