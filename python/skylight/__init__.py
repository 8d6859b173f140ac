"""Skylight: what is this disk, is it shingled, and what will it do to a workload?

People use the command `skylight`; the modules behind it are in one order, imports run to the right only:
`cli -> report -> probe -> engines, infer -> recording -> findings, evidence -> errors`.
"""

from __future__ import annotations

__version__ = "0.1.0"
