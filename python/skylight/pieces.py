"""Cuts of rows into pieces: the loop of the inference that runs in Rust, and nothing else of that module.

A cut depends on all cuts before it, so it has no form as operations on whole columns.

Invariant: pure functions of numbers. Statistics and tests reach the native module through here only, so they
cannot reach a drive, a profile or what is true of it.

Source: crates/infer.
"""

from skylight._native import agreed_pieces, cut_pieces

__all__ = ["agreed_pieces", "cut_pieces"]
