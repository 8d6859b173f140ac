"""Statistics that the tests share. Pure functions of numpy columns: no target, no files, no global state.

| module | answers |
|---|---|
| `robust` | is a latency fixed or varying, in the face of outliers; how sure is that (bootstrap) |
| `phase` | do completion times follow a rotation: which period, how strongly tied to the address |

Every random draw in here comes from a fixed seed: the same evidence gives the same finding to the last digit.
"""

from __future__ import annotations
