"""The papers' results on the emulated drives: each row of docs/figures.md measured and held to its band.

| module | what is in it |
|---|---|
| `rows` | Band, Check, Row: what is compared with what, and when it passes |
| `bands` | every band, once |
| `lab` | drives, commands, head traces, and what two rows share |
| `latency`, `fragments`, `cleaning`, `limits`, `advice` | the paper's tests on new drives |
| `recorded` | what the logs of a real drive say |
| `verdicts` | what the characterization suite finds |
| `fast15` | the rows in order, and the run |
| `figures` | the rows as docs/figures.md shows them |
| `drawing`, `page` | figures in the manner of the paper's, and the page |

Invariant: no row is satisfied by a constant; each comes out of the drive by running the test on it. The same
run gives the same figures.

Source: Skylight (FAST '15); docs/figures.md; docs/reproduce.md.
"""
