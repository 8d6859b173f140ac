"""Reads Python for house rules: functions with their lengths, classes with their fields.

Source: the `ast` module.
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
            declared = {ast.unparse(part.target) for part in node.body if isinstance(part, ast.AnnAssign)}
            yield Class(
                node.name, node.lineno, len(declared | _set_on_self(node)), ast.get_docstring(node) or ""
            )


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
