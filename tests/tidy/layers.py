"""Which part may import which: the arrows of docs/architecture.md as two tables, and their checks.

A new crate or package adds one line here and one in docs/architecture.md. An arrow also allows what lies
below its end.
Source: DESIGN, "The house": arrows of import run downwards only.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping

from tidy import python

# crates/<name> may depend on.
RUST_ARROWS: Mapping[str, tuple[str, ...]] = {
    "py": ("serve", "image", "drive", "host", "infer"),
    "serve": ("image", "drive"),
    "image": ("drive", "layer", "disk", "host"),
    "drive": ("layer", "disk"),
    "layer": ("disk",),
    "host": (),
    "infer": (),
    "disk": (),
}

# python/skylight/<name> may import; `_native` is the Rust side.
PYTHON_ARROWS: Mapping[str, tuple[str, ...]] = {
    "__main__": ("cli",),
    "cli": ("reproduce",),
    "reproduce": ("report", "geometry"),
    "geometry": ("probe",),
    "report": ("probe",),
    "probe": ("engines", "infer", "recording"),
    "engines": ("evidence", "units", "_native"),
    "infer": ("findings", "pieces"),
    "recording": ("evidence", "version"),
    "findings": ("evidence", "units"),
    "evidence": ("errors",),
    "pieces": ("_native",),
    "units": ("errors",),
    "errors": (),
    "version": (),
    "_native": (),
    "__init__": ("version",),
}


def below(arrows: Mapping[str, tuple[str, ...]], name: str) -> set[str]:
    """Everything that `name` may import: the ends of its arrows, and what lies below them."""
    found: set[str] = set()
    ahead = list(arrows[name])
    while ahead:
        part = ahead.pop()
        if part not in found:
            found.add(part)
            ahead.extend(arrows[part])
    return found


def rust_arrows_broken(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Dependencies in a crate's manifest, of every kind, that run upwards or to an unknown crate."""
    name = path.split("/")[1]
    if name not in RUST_ARROWS:
        yield 1, f"crate {name} is not in RUST_ARROWS of tests/tidy/layers.py"
        return
    allowed = below(RUST_ARROWS, name)
    for line, end in _crate_dependencies(text):
        if end != name and end not in allowed:
            yield line, f"{name} -> {end} is not an arrow of docs/architecture.md"


def _crate_dependencies(text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    for key in sorted(_dependency_keys(tomllib.loads(text))):
        if key.startswith("skylight-"):
            line = next((n for n, row in enumerate(lines, 1) if re.search(rf"\b{key}\b(?!-)", row)), 1)
            yield line, key.removeprefix("skylight-")


def _dependency_keys(manifest: Mapping[str, object]) -> set[str]:
    """The packages of every dependency table, a target's included; renamed ones by their real name."""
    keys: set[str] = set()
    for table, rows in manifest.items():
        if not isinstance(rows, dict):
            continue
        if table.endswith("dependencies"):
            for key, row in rows.items():
                keys.add(str(row.get("package", key)) if isinstance(row, dict) else key)
        elif table == "target":
            for inner in rows.values():
                keys |= _dependency_keys(inner)
    return keys


def python_arrows_broken(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Imports of our own modules that run upwards or to or from an unknown package."""
    own = _part_of(python.module_name(path) if path != "python/skylight/__init__.py" else "skylight.__init__")
    if own not in PYTHON_ARROWS:
        yield 1, f"{own} is not in PYTHON_ARROWS of tests/tidy/layers.py"
        return
    allowed = below(PYTHON_ARROWS, own)
    for line, name in python.imports(path, text):
        if name.split(".")[0] != "skylight":
            continue
        end = _part_of(name)
        if end not in PYTHON_ARROWS:
            yield line, f"{end} is not in PYTHON_ARROWS of tests/tidy/layers.py"
        elif end not in (own, "__init__") and end not in allowed:
            yield line, f"{own} -> {end} is not an arrow of docs/architecture.md"


def _part_of(module: str) -> str:
    """The part right below `skylight`; names of the root itself (a dunder) belong to `__init__`."""
    parts = module.split(".")
    part = parts[1] if len(parts) > 1 else "__init__"
    return "__init__" if part.startswith("__") and part != "__main__" else part
