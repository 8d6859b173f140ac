"""Reads Rust just well enough for house rules: what is code, which paths it names, where functions end.

Not a parser. Invariant: `code_only` returns a text of the same length with the same line breaks, so an offset
in one is an offset in the other; comments, strings and character literals are blanked, the rest is kept.
Source: the Rust Reference, chapters "Comments", "Tokens" and "Use declarations".
"""

import re
from collections.abc import Iterator, Mapping
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
    """A struct, a union or a variant of an enum: its name, its line (from 1), how many fields it has, named
    or not, and the comments and attributes right above it."""

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


_STRUCT = re.compile(r"\b(struct|union|enum)\s+([A-Za-z_]\w*)")
_VARIANT = re.compile(r"\s*(?:#\s*\[[^\]]*\]\s*)*([A-Za-z_]\w*)\s*([({])")
_DEPTH = {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}


def structs(text: str) -> Iterator[Struct]:
    """Every struct and union, and every variant of an enum that has fields."""
    # An arrow and a shift are no brackets.
    code, rows = re.sub("->|<<", "  ", code_only(text)), text.splitlines()
    for found in _STRUCT.finditer(code):
        start = _generics_end(code, found.end())
        body = start if code[start : start + 1] == "(" else _body_start(code, start)
        if body is None:
            continue
        if found[1] == "enum":
            variants = ((at, _VARIANT.match(part)) for at, part in _parts(code, body))
            owners = [
                (at + part.start(1), f"{found[2]}::{part[1]}", at + part.start(2))
                for at, part in variants
                if part
            ]
        else:
            owners = [(found.start(), found[2], body)]
        for offset, name, opening in owners:
            line = line_of(code, offset)
            fields = sum(1 for _, part in _parts(code, opening) if part.strip())
            yield Struct(name, line, fields, comment_above(rows, line))


def _generics_end(code: str, at: int) -> int:
    """Where what follows the name and its `<...>` begins."""
    depth = 0
    for offset in range(at, len(code)):
        char = code[offset]
        if depth == 0 and not char.isspace() and char != "<":
            return offset
        depth += _DEPTH.get(char, 0)
    return len(code)


def _parts(code: str, opening: int) -> Iterator[tuple[int, str]]:
    """The parts between the commas inside the bracket at `opening`, with their offsets."""
    depth, start = 0, opening + 1
    for offset in range(opening, len(code)):
        char = code[offset]
        depth += _DEPTH.get(char, 0)
        if depth == 0 or (depth == 1 and char == ","):
            yield start, code[start:offset]
            start = offset + 1
        if depth == 0:
            return


def comment_above(rows: list[str], line: int) -> str:
    """The comments and attributes right above a line."""
    first = line - 1
    while first > 0 and re.match(r"\s*(?://|#\[|\)\])", rows[first - 1]):
        first -= 1
    return "\n".join(rows[first : line - 1])


_USE = re.compile(r"\buse\s+([^;]+);")
_PUB_USE = re.compile(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);")
_EXTERN = re.compile(r"\bextern\s+crate\s+(\w+)\s+as\s+(\w+)\s*;")
_PATH = re.compile(r"(?:\b[A-Za-z_]\w*\s*::\s*)+(?:[A-Za-z_]\w*|\*)")
_PUBLIC = re.compile(
    r"\bpub(?:\([^)]*\))?\s+(?:(?:const|async|unsafe)\s+)*"
    r"(?:struct|union|enum|trait|fn|type|const|static|mod)\s+(\w+)"
)


def named_paths(text: str) -> Iterator[tuple[int, str]]:
    """(line, path) of every path that the code names, `use` trees written out: `std::{fs, io}` gives two. A
    path that begins with what the file takes by `use`, under whatever name, begins with what that is."""
    code = code_only(text)
    uses: list[tuple[int, int]] = []
    found_paths: list[tuple[int, str]] = []
    taken = {name: "crate" if base == "self" else base for base, name in _EXTERN.findall(code)}
    for found in _USE.finditer(code):
        uses.append(found.span())
        for offset, path, name in _use_tree(found.group(1)):
            found_paths.append((found.start(1) + offset, path))
            taken[name] = path
    for found in _PATH.finditer(code):
        if not any(start <= found.start() < end for start, end in uses):
            found_paths.append((found.start(), re.sub(r"\s", "", found.group())))
    for offset, path in found_paths:
        yield line_of(code, offset), _without_aliases(path, taken)


def _without_aliases(path: str, taken: Mapping[str, str]) -> str:
    """A path from where what it begins with was taken; names may be taken by way of each other."""
    seen: set[str] = set()
    while (first := path.split("::")[0]) in taken and first not in seen:
        seen.add(first)
        path = taken[first] + path.removeprefix(first)
    return path


def re_exports(text: str) -> Iterator[tuple[str, str]]:
    """What a module offers of others by `pub use`: the path, and the name that it has here."""
    for found in _PUB_USE.finditer(code_only(text)):
        yield from ((path, name) for _, path, name in _use_tree(found.group(1)))


def public(text: str) -> Iterator[str]:
    """The names of what a module shows of its own, and of what it re-exports."""
    yield from _PUBLIC.findall(code_only(text))
    yield from (name for _, name in re_exports(text))


def _use_tree(tree: str, prefix: str = "", shift: int = 0) -> Iterator[tuple[int, str, str]]:
    """The leaves of one use tree as (offset in the tree, full path, the name that it has from then on)."""
    for start, part in _split_commas(tree):
        brace = part.find("{")
        if brace < 0:
            leaf, _, alias = part.partition(" as ")
            lead = len(leaf) - len(leaf.lstrip())
            path = re.sub(r"\s", "", prefix + leaf).removeprefix("::").removesuffix("::self")
            if leaf.strip():
                yield shift + start + lead, path, alias.strip() or path.split("::")[-1]
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
