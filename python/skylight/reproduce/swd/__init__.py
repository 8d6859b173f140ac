"""The raw shingled disk against the paper on its emulator: rows W1 to W7 of docs/figures.md.

| module | what is in it |
|---|---|
| `table` | the rows, their bands, and the run |
| `tool` | the Rust example that has the layer at work on a real backing, found or built |
| `oracle` | W1 and W7: what a write destroys, sector by sector, from a profile alone; bands |
| `modes` | W2: what every read mode gives, through a block device of the kernel |
| `device` | a served drive as a block device, also for the benchmarks |
| `cost` | W3, W4, W5: times beside the conventional layer, instructions by the width of the head |

W6 is `skylight.reproduce.geometry`.

Invariant: a row that could not be measured here is unknown, which is a miss, and says what is missing.

Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05).
"""
