"""Segmentation of rows: the one loop of the inference that runs in Rust, and nothing else of that module.

A cut depends on all cuts before it, so it cannot be expressed as operations on whole columns.

Invariant: pure functions of numbers. Statistics and tests reach the native module only through this module,
so they cannot reach a drive, a profile or its truth.

Source: crates/infer.
"""

from skylight._native import agreed_pieces, cut_pieces

__all__ = ["agreed_pieces", "cut_pieces"]
