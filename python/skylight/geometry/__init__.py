"""Disk geometry from timing alone: rotation, tracks, zones, skews, layout and seek curve.

`extract` measures it with few reads and no writes: each step predicts where tracks end, reads there, and
confirms. `fit` smooths the track sizes with a polynomial into a chosen number of zones, writes a profile, and
draws it. docs/geometry.md describes the method, its limits and the file.

Sources: Gim and Won, "Extract and infer quickly: obtaining sector geometry of modern hard disk drives" (ACM
TOS 6(2), 2010), known as DIG; Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05, 2012), section 6;
Worthington, Ganger, Patt and Wilkes (SIGMETRICS '95); Talagala, Arpaci-Dusseau and Patterson
(UCB/CSD-99-1063).
"""
