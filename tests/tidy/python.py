"""Reads Python for house rules: functions with their lengths, and imports as absolute module names.

Invariant: an import counts wherever it stands, in a function or under TYPE_CHECKING as well.
Source: the Python Reference, section 7.11 (the import statement), and the `ast` module.
"""

import ast
from collections.abc import Iterator
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


def module_name(path: str) -> str:
    """`python/skylight/cli/drives.py` is `skylight.cli.drives`; a package is its folder's name."""
    parts = path.removeprefix("python/").removesuffix(".pyi").removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: str, text: str) -> Iterator[tuple[int, str]]:
    """(line, absolute name) of everything imported; `from a import b` counts as `a.b`."""
    module = module_name(path)
    package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parents = package.split(".")
    kept = parents[: len(parents) - node.level + 1]
    return ".".join([*kept, node.module] if node.module else kept)
