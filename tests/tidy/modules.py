"""Modules that name others: of one crate that import each other, and in the table of a package's page.

A module and the modules of its own folder are one thing, written in several files. Beside each other, in the
crate or in a folder, stand things of that kind; those that name each other, two of them or more in a ring,
cannot be read apart. Where that is meant of two modules, the heading of one says why, by
"Imports both ways with `NAME`: REASON", with the last part of the other's path. The two are one thing from
then on, so a ring that leads back to them by way of others still counts.

Invariant: tests do not count, neither at the end of a file nor in files of their own.
"""

import re
from collections.abc import Iterator, Mapping

from tidy import rust

_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{", re.MULTILINE)
_SOURCE = re.compile(r"crates/(\w+)/src/(.+)\.rs")
_TABLE = re.compile(r"^\| module \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
_TEST_MODULE = re.compile(r"(?:\w+_)?tests")
_REASON = re.compile(r"^//! Imports both ways with `(\w+)`: \S", re.MULTILINE)

Module = tuple[str, ...]
Graph = Mapping[Module, set[Module]]
Offered = Iterator[tuple[str, Module]]


def mutual_imports(tree: Mapping[str, str]) -> Iterator[str]:
    """A line for every ring of imports, of two or more, without a reason, and for reasons without need."""
    crates: dict[str, dict[Module, str]] = {}
    for path in sorted(tree):
        if found := _SOURCE.fullmatch(path):
            module = tuple(part for part in found[2].split("/") if part not in ("lib", "mod"))
            if not module or not _TEST_MODULE.fullmatch(module[-1]):
                crates.setdefault(found[1], {})[module] = path
    for modules in crates.values():
        offered = {
            (module, name): base for module in modules for name, base in _offered(module, tree, modules)
        }
        named = {
            module: set(_named(module, tree[path], modules, offered)) for module, path in modules.items()
        }
        reasons = {(module, name) for module in modules for name in _REASON.findall(tree[modules[module]])}
        yield from _rings(named, modules, reasons)


def _rings(named: Graph, modules: Mapping[Module, str], reasons: set[tuple[Module, str]]) -> Iterator[str]:
    """A line for every ring of things beside each other, and for reasons without need."""
    imports = {(one, other): _beside(one, other) for one in named for other in named[one]}
    needed: set[tuple[Module, str]] = set()
    for level in sorted({one[:-1] for one, _ in imports.values()}):
        here = {found: parts for found, parts in imports.items() if parts[0][:-1] == level}
        thing = {part: part for parts in here.values() for part in parts}
        rings = _rings_among(here, thing)
        for (one, other), ends in sorted(here.items()):
            said = {(one, other[-1]), (other, one[-1])} & reasons
            if said and any(ring.issuperset(ends) for ring in rings):
                needed |= said
                kept, dropped = (thing[end] for end in ends)
                thing = {part: kept if at == dropped else at for part, at in thing.items()}
        ends_of = {pair: {thing[end] for end in ends} for pair, ends in sorted(here.items())}
        for ring in _rings_among(here, thing):
            yield _words([pair for pair, ends in ends_of.items() if len(ends) == 2 and ends <= ring], modules)
    for module, name in sorted(reasons - needed):
        yield f"{modules[module]}: it does not import both ways with `{name}`; leave the line out"


def _beside(one: Module, other: Module) -> tuple[Module, Module]:
    """The two things beside each other, modules or folders, that two modules belong to."""
    same = next(n for n in range(len(one)) if one[n] != other[n])
    return one[: same + 1], other[: same + 1]


def _rings_among(
    imports: Mapping[tuple[Module, Module], tuple[Module, Module]], thing: Mapping[Module, Module]
) -> list[set[Module]]:
    """The things that lead back to themselves by way of others, those of a ring together."""
    graph: dict[Module, set[Module]] = {}
    for a, b in imports.values():
        if thing[a] != thing[b]:
            graph.setdefault(thing[a], set()).add(thing[b])
    reached = {start: _reached(start, graph) for start in graph}
    rings = ((a, {b for b in reached[a] if a in reached.get(b, ())}) for a in sorted(graph))
    return [ring for a, ring in rings if ring and a == min(ring)]


def _reached(start: Module, graph: Graph) -> set[Module]:
    """All that a thing imports, at first or at last hand; itself only in a ring."""
    reached: set[Module] = set()
    left = [start]
    while left:
        new = graph.get(left.pop(), set()) - reached
        reached |= new
        left += new
    return reached


def _words(pairs: list[tuple[Module, Module]], modules: Mapping[Module, str]) -> str:
    """What is wrong with the imports of a ring."""
    (one, other), *_ = pairs
    if {*pairs} == {(one, other), (other, one)}:
        ring = f"{modules[one]} and {modules[other]} import each other"
    else:
        each = ", ".join(f"{modules[one]} imports {modules[other]}" for one, other in pairs)
        ring = f"{each}: they import each other in a ring"
    return (
        f"{ring}: move what both need, or say why "
        f"in the heading of one: Imports both ways with `{other[-1]}`: ..."
    )


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
