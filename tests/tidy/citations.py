"""What comments and pages cite must be there to be opened: files, folders of code, modules, links, headings,
rows of docs/figures.md.

Invariants: a file is cited by its path from the root, or in backticks by the end of that path
(`layer/plan.rs` is crates/layer/src/plan.rs), in a picture without them; what the page of a Rust module
lists is a module below it or stands in it; a Python module, or what it defines, by its full name; a link
of a page by its path from the page, with its heading if it has one; a part of a page by the page and the
heading in quotes. What is cited must be in the tree. Notes that are not in the repository, and issues, are
not cited at all.
Source: docs/architecture.md, "Citations".
"""

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from posixpath import dirname, normpath

FIGURES = "docs/figures.md"

_SOURCES = r"rs|py|pyi|md|toml|sh"
_FROM_ROOT = re.compile(
    rf"(?<![\w./{{}}-])((?:docs|crates|python|tests|bench|scripts|fuzz)/[\w./-]*\.(?:{_SOURCES}|svg|png))\b(?!/)"
)
_IN_BACKTICKS = re.compile(r"`([a-z]\w*(?:/\w+)*\.(?:rs|py))`")
_IN_PICTURE = re.compile(r"(?<![\w/])([a-z]\w*(?:/\w+)+\.rs)\b")
_LISTED = re.compile(r"^//! \* ([^:]*(?:::[^:]*)*): ")
_LISTED_NAME = re.compile(r"`(?:mod@|\w+::)*([a-z]\w*)(?:\(\))?`")
_FOLDER = re.compile(r"(?<![\w./{}-])((?:crates|python)/[\w/-]*\w)(?![\w/*{-]|\.\w)")
_MODULE = re.compile(r"\bskylight(?:\.[A-Za-z]\w*)+")
_LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
_PART = re.compile(r"\]\(([^)\s#:]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
# On over the end of a line, behind what begins a comment.
_BREAK = r"\s+(?:(?://[/!]?|#)\s+)?"
_QUOTED = re.compile(rf'(docs/[\w/-]+\.md)[`)]*,{_BREAK}"([^"]+)"')
_ROW = r"[SWRH]\d{1,2}[a-h]?"
_ROWS = re.compile(rf"\b[Rr]ows? ({_ROW}(?:(?:, | to | and ){_ROW})*)\b")
_ROW_OF_PAGE = re.compile(rf"^(?:### |\| |Row )({_ROW})\b", re.MULTILINE)
# Put together from pieces, so that this file obeys its own rule.
_NOTES = re.compile(r"\b(?:" + "|".join(["DES" + "IGN", "FA" + "CTS", "STY" + "LE"]) + r")\b(?:\.md)?")
# By number, or by its title in quotes.
_ISSUE = re.compile(r"\bissue (?:#?\d+\b|[\"'`\u201c])", re.IGNORECASE)


@dataclass(frozen=True)
class Cited:
    """What can be cited: the files of the tree with their texts, and the rows of the page of figures."""

    files: Mapping[str, str]
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
        shown = _IN_PICTURE if path.endswith(".svg") else _IN_BACKTICKS
        names += [name for name in shown.findall(row) if not _is_an_end(name, cited.files)]
        if path.endswith(".rs") and (listed := _LISTED.match(row)):
            below = _LISTED_NAME.findall(listed[1])
            names += [name for name in below if not _is_below(name, folder, text, cited.files)]
        if path.endswith(".md"):
            links = _LINK.findall(row)
            names += [
                link for link in links if not _is_there(normpath(f"{folder}/{link}").lstrip("/"), cited.files)
            ]
            names += [
                f"{link}#{part}"
                for link, part in _PART.findall(row)
                if (page := cited.files.get(normpath(f"{folder}/{link}").lstrip("/") if link else path))
                and part not in _anchors(page)
            ]
        names += [name for name in _FOLDER.findall(plain) if not _is_there(name, cited.files)]
        names += [name for name in _MODULE.findall(plain) if not _is_defined(name, cited.files)]
        for name in dict.fromkeys(names):
            yield line, f"cites {name}, which is not in the tree"
        for rows in _ROWS.findall(row):
            for one in re.findall(_ROW, rows):
                if one not in cited.rows:
                    yield line, f"cites row {one}, which {FIGURES} does not have"
    for found in _QUOTED.finditer(text):
        page, part = found[1], re.sub(_BREAK, " ", found[2])
        if page in cited.files and part.lower() not in _headings(cited.files[page]):
            yield (
                text.count("\n", 0, found.start()) + 1,
                f"cites {page}, {part}, a heading that it does not have",
            )


@cache
def _headings(page: str) -> frozenset[str]:
    """The headings of a page, in lower case, without the marks of code."""
    return frozenset(found.replace("`", "").strip().lower() for found in _HEADING.findall(page))


@cache
def _anchors(page: str) -> frozenset[str]:
    """What links call the headings of a page."""
    return frozenset(re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in _headings(page))


def _is_defined(name: str, files: Mapping[str, str]) -> bool:
    """Whether a dotted name is a module of the package, or what one names; others than modules' begin so
    too."""
    parts = name.split(".")
    module = None
    for count in range(2, len(parts) + 1):
        path = "python/" + "/".join(parts[:count])
        below = next(
            (file for file in (f"{path}.py", f"{path}/__init__.py", f"{path}.pyi") if file in files), None
        )
        if below is None:
            return module is None or re.search(rf"\b{parts[count - 1]}\b", files[module]) is not None
        module = below
    return True


def _is_there(name: str, files: Mapping[str, str]) -> bool:
    """Whether it is a file of the tree, or a folder of one."""
    return name in files or any(file.startswith(f"{name}/") for file in files)


def _is_below(name: str, folder: str, text: str, files: Mapping[str, str]) -> bool:
    """Whether a module below a folder has the name, or something that stands in the text."""
    ends = (f"/{name}.rs", f"/{name}/mod.rs")
    there = any(file.startswith(f"{folder}/") and file.endswith(ends) for file in files)
    return there or re.search(rf'\b(?:mod|fn) {name}\b|"{name}"', text) is not None


def _is_an_end(name: str, files: Mapping[str, str]) -> bool:
    """Whether a path of the tree ends so; a crate's or package's own name may stand before what is in it."""
    first, _, rest = name.partition("/")
    ends = [f"/{name}", *([f"crates/{first}/src/{rest}", f"crates/{first}/tests/{rest}"] if rest else [])]
    return name in files or any(file.endswith(tuple(ends)) for file in files)
