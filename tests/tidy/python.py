"""Reads Python for house rules: functions with their lengths, classes with their fields.

Source: the `ast` module.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Function:
    """A function or method: its name, its line (from 1, decorators not counted), and its lines to the end."""

    name: str
    line: int
    lines: int


def functions(text: str) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            end = node.end_lineno or node.lineno
            yield Function(node.name, node.lineno, end - node.lineno + 1)


@dataclass(frozen=True)
class Class:
    """A class: its name, its line (from 1), how many fields it has, and its docstring."""

    name: str
    line: int
    fields: int
    comment: str


def classes(text: str) -> Iterator[Class]:
    """Every class with what it declares as `name: type`, and what its methods set on `self`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield Class(node.name, node.lineno, len(_own(node)), ast.get_docstring(node) or "")


def inheriting(tree: Mapping[str, str], reason: re.Pattern[str]) -> Iterator[tuple[str, Class]]:
    """The path and the class, with the fields of all that it inherits from in the tree, of every class that
    does; a base that gives its reason for many has none. A base is looked for by its name: in the same file,
    else in what the file imports."""
    nodes: dict[tuple[str, str], ast.ClassDef] = {}
    imported: dict[tuple[str, str], tuple[str, str]] = {}
    for path, text in tree.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                nodes[path, node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for name in node.names:
                    imported[path, name.asname or name.name] = (node.module.replace(".", "/"), name.name)
    by_module = {_module_of(path): path for path in tree}

    def defined(path: str, name: str) -> tuple[str, str] | None:
        """Where the class is that a file knows by a name; packages pass names on."""
        for _ in imported:
            if (path, name) in nodes or (path, name) not in imported:
                break
            module, name = imported[path, name]
            path = by_module.get(module, "")
        return (path, name) if (path, name) in nodes else None

    def fields(key: tuple[str, str]) -> set[str]:
        above = [base for base in bases(key) if not reason.search(ast.get_docstring(nodes[base]) or "")]
        return _own(nodes[key]).union(*(fields(base) for base in above))

    def bases(key: tuple[str, str]) -> list[tuple[str, str]]:
        names = (ast.unparse(base).partition("[")[0] for base in nodes[key].bases)
        return [base for name in names if (base := defined(key[0], name))]

    for key, node in nodes.items():
        if bases(key):
            yield key[0], Class(node.name, node.lineno, len(fields(key)), ast.get_docstring(node) or "")


def _module_of(path: str) -> str:
    """A file as an import names it, with slashes: from where packages begin."""
    for root in ("python/", "tests/", "bench/"):
        path = path.removeprefix(root)
    return path.removesuffix(".py").removesuffix("/__init__")


def _own(node: ast.ClassDef) -> set[str]:
    """The fields of a class without those of its bases."""
    declared = {ast.unparse(part.target) for part in node.body if isinstance(part, ast.AnnAssign)}
    return declared | _set_on_self(node)


def _set_on_self(node: ast.ClassDef) -> set[str]:
    """The attributes that a class's methods set."""
    return {
        part.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        for part in ast.walk(method)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
        if isinstance(part.value, ast.Name) and part.value.id == "self"
    }
