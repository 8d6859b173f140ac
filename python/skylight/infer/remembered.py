"""Answers of pure functions of columns, kept for when the same is asked again.

A test asks for the same fit more than once: a step that is planned looks at all logs before it, one place is
held against several others, and what was measured is inferred once more from what the recording gives back.
The columns are the same numbers each time, though not the same arrays, so answers are kept by what these
hold. Nothing of a drive is kept beside its evidence: the function would give the same answer again.

Invariant: an answer is a frozen dataclass or None, and its arrays cannot be written to.

Source: docs/architecture.md, idea 3.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar

import numpy as np

MOST_KEPT = 256
"""Answers of one function. Chosen: twice the most that a test asks for, of some kilobytes each."""

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


def remembered(function: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """The function, which is pure, with the last of its answers kept.

    >>> @remembered
    ... def length(column: np.ndarray) -> None:
    ...     print("asked")
    >>> length(np.arange(3)), length(np.arange(3)), length(np.arange(4))
    asked
    asked
    (None, None, None)
    """
    kept = OrderedDict[bytes, Answer]()

    @wraps(function)
    def asked(*args: Asked.args, **kwargs: Asked.kwargs) -> Answer:
        key = _key((args, sorted(kwargs.items())))
        if key in kept:
            kept.move_to_end(key)
            return kept[key]
        answer = kept[key] = function(*args, **kwargs)
        _freeze(answer)
        if len(kept) > MOST_KEPT:
            kept.popitem(last=False)
        return answer

    return asked


def _key(asked: object) -> bytes:
    """What names these values: a check sum of all that they hold."""
    digest = blake2b(digest_size=16)
    _add(digest.update, asked)
    return digest.digest()


def _add(update: Callable[[Any], None], value: Any) -> None:
    if isinstance(value, np.ndarray):
        update(f"{value.dtype.str}{value.shape}".encode())
        update(np.ascontiguousarray(value).data)
    elif is_dataclass(value):
        update(type(value).__qualname__.encode())
        for field in fields(value):
            _add(update, getattr(value, field.name))
    elif isinstance(value, tuple | list):
        update(f"({len(value)}".encode())
        for each in value:
            _add(update, each)
    else:
        update(f"{value!r},".encode())


def _freeze(answer: Any) -> None:
    for field in fields(answer) if is_dataclass(answer) else ():
        if isinstance(value := getattr(answer, field.name), np.ndarray):
            value.flags.writeable = False
