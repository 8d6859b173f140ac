"""Skylight: what is this disk, is it shingled, and what will it do to a workload?

People use the command `skylight`, or from Python the names of `skylight.api` (docs/python.md), which are
here too: ``import skylight as sl; sl.open("sim:emulated-smr-1")``. The modules behind both are in one order,
imports run to the right only:
`cli -> api -> reproduce -> report -> truth -> probe -> engines, infer, recording -> findings, zoned -> units
-> evidence -> errors`.

The names of `skylight.api` are imported when they are asked for, so that the command starts without what it
does not need; `__init__.pyi` declares them.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """A name of `skylight.api`."""
    if not name.startswith("_"):
        api = import_module("skylight.api")
        if name in api.__all__:
            return getattr(api, name)
    raise AttributeError(f"module 'skylight' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is here, with the names of `skylight.api`."""
    return sorted([*globals(), *import_module("skylight.api").__all__])
