"""Reads Rust just well enough for house rules: what is code, which paths it names, where functions end.

Not a parser. Invariant: `code_only` returns a text of the same length with the same line breaks, so an offset
in one is an offset in the other; comments, strings and character literals are blanked, the rest is kept.
Source: the Rust Reference, chapters "Comments", "Tokens" and "Use declarations".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SKIP = re.compile(
    r"""
      (?P<line>//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>\b(?:b|c|br|cr|r)(?P<hashes>\#*)")
    | (?P<string>")
    | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.)|[^\\'\n])')
    """,
    re.VERBOSE,
)
_BLOCK = re.compile(r"/\*|\*/")
_STRING_END = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)


@dataclass(frozen=True)
class Struct:
    """A struct with named fields: its name, the line of its `struct` (from 1), how many fields, and the
    comments and attributes right above it."""

    name: str
    line: int
    fields: int
    comment: str


@dataclass(frozen=True)
class Function:
    """A function with a body: its name, the line of its `fn` (from 1), its lines up to the closing brace."""

    name: str
    line: int
    lines: int


def line_of(text: str, offset: int) -> int:
    """The number of the line, from 1, that holds `offset`."""
    return text.count("\n", 0, offset) + 1


def code_only(text: str) -> str:
    """The source with comments, strings and character literals turned into spaces."""
    out: list[str] = []
    at = 0
    while found := _SKIP.search(text, at):
        out.append(text[at : found.start()])
        end = _end_of(text, found)
        out.append(re.sub(r"[^\n]", " ", text[found.start() : end]))
        at = end
    out.append(text[at:])
    return "".join(out)


def _end_of(text: str, found: re.Match[str]) -> int:
    """Where the comment or literal that `found` opens ends."""
    match found.lastgroup:
        case "block":
            return _block_end(text, found.end())
        case "string":
            end = _STRING_END.match(text, found.end())
            return end.end() if end else len(text)
        case "raw":
            return _raw_end(text, found)
        case _:
            return found.end()


def _block_end(text: str, at: int) -> int:
    depth = 1
    while depth and (mark := _BLOCK.search(text, at)):
        depth += 1 if mark.group() == "/*" else -1
        at = mark.end()
    return at if depth == 0 else len(text)


def _raw_end(text: str, found: re.Match[str]) -> int:
    prefix = text[found.start() : found.end()]
    if "r" not in prefix:  # b"..." and c"..." know escapes
        end = _STRING_END.match(text, found.end())
        return end.end() if end else len(text)
    close = '"' + found.group("hashes")
    end_at = text.find(close, found.end())
    return end_at + len(close) if end_at >= 0 else len(text)


_FN = re.compile(r"\bfn\s+([A-Za-z_]\w*)")
_OPEN = {"(": 1, "[": 1, ")": -1, "]": -1}


def functions(text: str) -> Iterator[Function]:
    """Every function with a body, nested ones too."""
    code = code_only(text)
    for found in _FN.finditer(code):
        body = _body_start(code, found.end())
        if body is None:
            continue
        start, end = line_of(code, found.start()), line_of(code, _brace_end(code, body))
        yield Function(found.group(1), start, end - start + 1)


def _body_start(code: str, at: int) -> int | None:
    """The offset of the `{` that opens the body; None for a declaration that ends in `;`."""
    depth = 0
    for offset in range(at, len(code)):
        char = code[offset]
        depth += _OPEN.get(char, 0)
        if depth == 0 and char == "{":
            return offset
        if depth == 0 and char == ";":
            return None
    return None


def _brace_end(code: str, at: int) -> int:
    depth = 0
    for found in re.finditer(r"[{}]", code[at:]):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return at + found.start()
    return len(code)


_STRUCT = re.compile(r"\bstruct\s+([A-Za-z_]\w*)")
_FIELD = re.compile(r"\b(?:r#)?[a-z_]\w*\s*:(?!:)")


def structs(text: str) -> Iterator[Struct]:
    """Every struct with named fields."""
    code, rows = code_only(text), text.splitlines()
    for found in _STRUCT.finditer(code):
        body = _body_start(code, found.end())
        if body is None:
            continue
        line = line_of(code, found.start())
        first = line - 1
        while first > 0 and re.match(r"\s*(?://|#\[|\)\])", rows[first - 1]):
            first -= 1
        fields = _fields(code[body + 1 : _brace_end(code, body)])
        yield Struct(found.group(1), line, fields, "\n".join(rows[first : line - 1]))


def _fields(body: str) -> int:
    """How many fields the body of a struct names: a name and a colon, between commas outside brackets."""
    depth, count, part = 0, 0, ""
    for char in body.replace("->", "  ") + ",":
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(char, 0)
        if char == "," and depth == 0:
            count += _FIELD.search(part) is not None
            part = ""
        else:
            part += char
    return count


_USE = re.compile(r"\buse\s+([^;]+);")
_PUB_USE = re.compile(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);")
_PATH = re.compile(r"(?:\b[A-Za-z_]\w*\s*::\s*)+(?:[A-Za-z_]\w*|\*)")


def named_paths(text: str) -> Iterator[tuple[int, str]]:
    """(line, path) of every path that the code names, `use` trees written out: `std::{fs, io}` gives two."""
    code = code_only(text)
    uses: list[tuple[int, int]] = []
    for found in _USE.finditer(code):
        uses.append(found.span())
        for offset, path in _use_tree(found.group(1)):
            yield line_of(code, found.start(1) + offset), path
    for found in _PATH.finditer(code):
        if not any(start <= found.start() < end for start, end in uses):
            yield line_of(code, found.start()), re.sub(r"\s", "", found.group())


def re_exports(text: str) -> Iterator[str]:
    """What a module offers of others by `pub use`, as paths."""
    for found in _PUB_USE.finditer(code_only(text)):
        yield from (path for _, path in _use_tree(found.group(1)))


def _use_tree(tree: str, prefix: str = "", shift: int = 0) -> Iterator[tuple[int, str]]:
    """The leaves of one use tree as (offset in the tree, full path); a renaming counts as what it renames."""
    for start, part in _split_commas(tree):
        brace = part.find("{")
        if brace < 0:
            leaf = re.sub(r"\s+as\s+\w+\s*$", "", part)
            lead = len(leaf) - len(leaf.lstrip())
            path = re.sub(r"\s", "", prefix + leaf).removeprefix("::").removesuffix("::self")
            if leaf.strip():
                yield shift + start + lead, path
        else:
            inner = part[brace + 1 : part.rindex("}")] if "}" in part else part[brace + 1 :]
            yield from _use_tree(inner, prefix + part[:brace].strip(), shift + start + brace + 1)


def _split_commas(tree: str) -> Iterator[tuple[int, str]]:
    """The parts between the commas that no brace encloses, with their offsets."""
    depth = start = 0
    for offset, char in enumerate(tree):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            yield start, tree[start:offset]
            start = offset + 1
    yield start, tree[start:]
