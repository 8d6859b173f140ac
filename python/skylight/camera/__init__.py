"""The camera: the head's position from slow-motion video, and video of an emulated drive's head.

`track_head` turns a film of a head, seen through a window in the cover, into columns: time, position between
the outer (0) and the inner (1) diameter, confidence. `seek_detection` turns such columns into dwells, seeks,
periods, strokes and the phases of a cleaning. `render` is the virtual window: a film of an emulated drive,
drawn from its head trace, with the truth beside it; `filmed_scenes` makes traces that are worth it.

Invariants:
- Nothing here imports OpenCV or starts ffmpeg when it is imported: both belong to the extra `video`, and
  without it the message says what to install.
- Pictures are streamed: memory does not grow with a clip, apart from some numbers a frame.
- What the film does not show is an error or a low confidence, never a position.

Source: Skylight (FAST '15), sections 3 and 4, Figures 3, 5, 9, 11, 16 and 19.
"""
