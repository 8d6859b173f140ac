"""Modules that name others: of one crate that import each other, and in the table of a package's page.

A module and the modules of its own folder are one thing, written in several files; any other two that name
each other cannot be read apart. Where that is meant, the heading of one says why, by
"Imports both ways with `NAME`: REASON", with the last part of the other's path.

Invariant: tests at the end of a file do not count.
"""

import re
from collections.abc import Iterator, Mapping

from tidy import rust

_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{", re.MULTILINE)
_SOURCE = re.compile(r"crates/(\w+)/src/(.+)\.rs")
_TABLE = re.compile(r"^\| module \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
_REASON = re.compile(r"^//! Imports both ways with `(\w+)`: \S", re.MULTILINE)

Module = tuple[str, ...]
Offered = Iterator[tuple[str, Module]]


def mutual_imports(tree: Mapping[str, str]) -> Iterator[str]:
    """A line for every two modules that import each other without a reason, and for reasons without need."""
    crates: dict[str, dict[Module, str]] = {}
    for path in sorted(tree):
        if found := _SOURCE.fullmatch(path):
            module = tuple(part for part in found[2].split("/") if part not in ("lib", "mod"))
            crates.setdefault(found[1], {})[module] = path
    for modules in crates.values():
        offered = {
            (module, name): base for module in modules for name, base in _offered(module, tree, modules)
        }
        named = {
            module: set(_named(module, tree[path], modules, offered)) for module, path in modules.items()
        }
        reasons = {(module, name) for module in modules for name in _REASON.findall(tree[modules[module]])}
        pairs = {(one, other) for one in named for other in named[one] if one in named[other]}
        for one, other in sorted(pairs):
            if one < other and not {(one, other[-1]), (other, one[-1])} & reasons:
                yield (
                    f"{modules[one]} and {modules[other]} import each other: move what both need, or say why "
                    f"in the heading of one: Imports both ways with `{other[-1]}`: ..."
                )
        for module, name in sorted(reasons - {(one, other[-1]) for one, other in pairs}):
            yield f"{modules[module]}: it does not import both ways with `{name}`; leave the line out"


def _offered(module: Module, tree: Mapping[str, str], modules: Mapping[Module, str]) -> Offered:
    """What a module offers that is of another: its name there, and the path of it in the crate."""
    for path, name in rust.re_exports(tree[modules[module]]):
        base = _base(module, path.split("::"))
        if not base and (*module, path.split("::")[0]) in modules:
            base = (*module, *path.split("::"))
        if base and base[-1] != "*":
            yield name, base
        elif base[:-1] in modules:
            yield from ((each, (*base[:-1], each)) for each in rust.public(tree[modules[base[:-1]]]))


def _base(module: Module, parts: list[str]) -> Module:
    """A path from the root of the crate; nothing for one that does not begin there or at the module."""
    if parts[0] == "crate":
        return tuple(parts[1:])
    if parts[0] == "self":
        return (*module, *parts[1:])
    if parts[0] != "super":
        return ()
    above = sum(part == "super" for part in parts)
    return (*module[: len(module) - above], *parts[above:])


def _owner(
    base: Module, modules: Mapping[Module, str], offered: Mapping[tuple[Module, str], Module]
) -> Module:
    """The module that a path leads to, behind what others offer of it."""
    for _ in range(len(offered) + 1):
        found = next((base[:n] for n in range(len(base), -1, -1) if base[:n] in modules), ())
        beyond = base[len(found) :]
        if not beyond or (found, beyond[0]) not in offered:
            return found
        base = (*offered[found, beyond[0]], *beyond[1:])
    return ()


def _named(
    module: Module,
    text: str,
    modules: Mapping[Module, str],
    offered: Mapping[tuple[Module, str], Module],
) -> Iterator[Module]:
    """The other modules of the crate that a module names, but for its own parts and what it is a part of."""
    tests = _TESTS.search(text)
    for _, path in rust.named_paths(text[: tests.start()] if tests else text):
        found = _owner(_base(module, path.split("::")), modules, offered)
        if found and found[: len(module)] != module and module[: len(found)] != found:
            yield found


def tables(tree: Mapping[str, str]) -> Iterator[str]:
    """A line for every module that the table of its package does not name, and for names of none."""
    for path, text in sorted(tree.items()):
        folder, _, name = path.rpartition("/")
        if name != "__init__.py" or not (table := _TABLE.search(text)):
            continue
        cells = (row.split("|")[1] for row in table[1].splitlines())
        named = {found for cell in cells for found in re.findall(r"`(\w+)`", cell)}
        inside = (other.removeprefix(f"{folder}/") for other in tree if other.startswith(f"{folder}/"))
        there = {other.removesuffix(".py").split("/")[0] for other in inside if other.endswith(".py")}
        for module in sorted(named ^ (there - {"__init__"})):
            yield f"{path}: the table of modules and the folder differ in `{module}`"
