"""The raw shingled disk compared with the paper on its emulator: rows W1 to W7.

| module | contents |
|---|---|
| `table` | the rows, their bands, and the run |
| `layer_benchmark` | the Rust example that runs the layer on a real file, found or built |
| `oracle` | W1 and W7: which sectors a write destroys, from a profile alone; bands |
| `read_modes` | W2: the data that every read mode returns, through a kernel block device |
| `attached_drive` | a served drive as a block device, also for the benchmarks |
| `shingling_cost` | W3, W4, W5: times compared with the conventional layer, instructions by head width |

W6 is `skylight.reproduce.geometry`.

Invariant: a row that cannot be measured here is unknown, which is a miss, and names what is missing.

Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05).
"""
