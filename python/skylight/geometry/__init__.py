"""The geometry of a disk from timing alone: rotation, tracks, zones, skews, layout and the arm.

`extract` finds it from reads (never a write), in few of them: each step predicts where tracks end, jumps
there, and confirms. `fit` makes zones of chosen number from it by a polynomial, writes a profile, and draws
it. docs/geometry.md has the method, its limits and the file.

Sources: Gim and Won, "Extract and infer quickly: obtaining sector geometry of modern hard disk drives" (ACM
TOS 6(2), 2010), known as DIG; Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05, 2012), section 6;
Worthington, Ganger, Patt and Wilkes (SIGMETRICS '95); Talagala, Arpaci-Dusseau and Patterson
(UCB/CSD-99-1063).
"""
