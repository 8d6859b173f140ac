"""What comments and pages cite must be there to be opened: files, links, rows of docs/figures.md.

Invariants: a file is cited by its path from the root, or in backticks by the end of that path
(`layer/plan.rs` is crates/layer/src/plan.rs); a link of a page by its path from the page. What is cited must
be a file of the tree. Notes that are not in the repository, and issues, are not cited at all.
Source: docs/architecture.md, "Citations".
"""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from posixpath import dirname, normpath

FIGURES = "docs/figures.md"

_SOURCES = r"rs|py|pyi|md|toml|sh"
_FROM_ROOT = re.compile(
    rf"(?<![\w./{{}}-])((?:docs|crates|python|tests|bench|scripts|fuzz)/[\w./-]*\.(?:{_SOURCES}|svg|png))\b(?!/)"
)
_IN_BACKTICKS = re.compile(r"`([a-z]\w*(?:/\w+)*\.(?:rs|py))`")
_LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
_ROW = r"[SWRH]\d{1,2}[a-h]?"
_ROWS = re.compile(rf"\b[Rr]ows? ({_ROW}(?:(?:, | to | and ){_ROW})*)\b")
_ROW_OF_PAGE = re.compile(rf"^(?:### |\| |Row )({_ROW})\b", re.MULTILINE)
# Put together from pieces, so that this file obeys its own rule.
_NOTES = re.compile(r"\b(?:" + "|".join(["DES" + "IGN", "FA" + "CTS", "STY" + "LE"]) + r")\b(?:\.md)?")
_ISSUE = re.compile(r"\bissue #?\d+\b", re.IGNORECASE)


@dataclass(frozen=True)
class Cited:
    """What can be cited: the files of the tree, and the rows of the page of figures."""

    files: Set[str]
    rows: Set[str]


def rows_of(page: str) -> frozenset[str]:
    """The rows that the page of figures shows."""
    return frozenset(_ROW_OF_PAGE.findall(page))


def elsewhere(_path: str, text: str) -> Iterator[tuple[int, str]]:
    """Citations of what is not in the repository."""
    for line, row in enumerate(text.splitlines(), 1):
        for found in (*_NOTES.finditer(row), *_ISSUE.finditer(row)):
            yield line, f"cites {found.group()}, which a reader cannot open; cite a page of docs/ or a source"


def missing(path: str, text: str, cited: Cited) -> Iterator[tuple[int, str]]:
    """Citations of files, links and rows that are not there."""
    folder = dirname(path)
    for line, row in enumerate(text.splitlines(), 1):
        plain = _LINK.sub("", row) if path.endswith(".md") else row
        names = [name for name in _FROM_ROOT.findall(plain) if name not in cited.files]
        names += [name for name in _IN_BACKTICKS.findall(row) if not _is_an_end(name, cited.files)]
        if path.endswith(".md"):
            links = _LINK.findall(row)
            names += [
                link for link in links if not _is_there(normpath(f"{folder}/{link}").lstrip("/"), cited.files)
            ]
        for name in dict.fromkeys(names):
            yield line, f"cites {name}, which is not in the tree"
        for rows in _ROWS.findall(row):
            for one in re.findall(_ROW, rows):
                if one not in cited.rows:
                    yield line, f"cites row {one}, which {FIGURES} does not have"


def _is_there(name: str, files: Set[str]) -> bool:
    """Whether it is a file of the tree, or a folder of one."""
    return name in files or any(file.startswith(f"{name}/") for file in files)


def _is_an_end(name: str, files: Set[str]) -> bool:
    """Whether a path of the tree ends so; a crate's or package's own name may stand before what is in it."""
    first, _, rest = name.partition("/")
    ends = [f"/{name}", *([f"crates/{first}/src/{rest}", f"crates/{first}/tests/{rest}"] if rest else [])]
    return name in files or any(file.endswith(tuple(ends)) for file in files)
