"""Queries are answered chunk by chunk, which bounds the memory of a prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

CHUNK_BYTES = 64 << 20
"""Memory for the intermediate results of one chunk, about."""


def in_chunks(
    answer: Callable[[NDArray[Any]], NDArray[Any]], queries: NDArray[Any], row_bytes: int
) -> NDArray[Any]:
    """Return the answers to all queries, each of which needs `row_bytes` meanwhile."""
    size = max(1, CHUNK_BYTES // row_bytes)
    if len(queries) <= size:
        return answer(queries)
    return np.concatenate([answer(queries[rows]) for rows in gen_batches(len(queries), size)])
