"""Model files that somebody has damaged or made up, as many as one likes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vicinal.io.container import read, write

HOSTILE = [
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 0.5, -1e308, "", "x", "a" * 1000, [], {}, [[]],
    {"tuple": []}, {"dict": [[1]]}, {"float": "nan"}, {"float": "1"}, {"array": "nowhere"},
    {"os.system": {"command": "true"}}, {"FaLKSVC": {"parameters": {"dict": []}}},
    {"objects": {"items": [1, 2], "shape": [-1, 5]}}, {"scalar": 1},
]  # fmt: skip


def damaged(original: bytes, rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Yield without end what a disk, a network or an editor may make of a file."""
    header_end = 8 + int.from_bytes(original[:8], "little")
    while True:
        a, b = sorted(int(i) for i in rng.choice(len(original), 2, replace=False))
        yield "cut off", original[:b]
        yield "a piece missing", original[:a] + original[b + 1 :]
        yield "a piece twice", original[:b] + original[a:]
        for kind, end in (("bytes changed", len(original)), ("header changed", header_end)):
            some = bytearray(original)
            for at in rng.integers(0, end, rng.integers(1, 5)):
                some[at] ^= int(rng.integers(1, 256))
            yield kind, bytes(some)


def forge(original: Path, forged: Path, rng: np.random.Generator) -> str:
    """Change what a file says and give it a true checksum; return what was changed."""
    contents = read(original)
    document, arrays = copy.deepcopy(contents.document), dict(contents.arrays)
    if rng.random() < 0.5:
        kind = "forged document"
        spots = list(_spots(document))
        for at in rng.integers(0, len(spots), rng.integers(1, 3)):
            place, key = spots[at]
            place[key] = _other_value(document, spots, rng)
    else:
        kind = "forged arrays"
        for name in rng.choice(sorted(arrays), rng.integers(1, 3)):
            arrays[name] = _other_array(arrays[name], rng)
    write(forged, document, arrays, "0")
    return kind


def _spots(node: Any) -> Iterator[tuple[Any, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in list(items):
        yield node, key
        if isinstance(child, dict | list):
            yield from _spots(child)


def _other_value(document: Any, spots: list[tuple[Any, Any]], rng: np.random.Generator) -> Any:
    if rng.random() < 0.3:  # what stands in another place
        place, key = spots[rng.integers(len(spots))]
        return copy.deepcopy(place[key] if key in _keys(place) else None)
    if rng.random() < 0.05:
        deep: Any = 0
        for _ in range(int(rng.integers(100, 500))):
            deep = [deep]
        return deep
    return copy.deepcopy(HOSTILE[rng.integers(len(HOSTILE))])


def _keys(place: Any) -> Any:
    return place.keys() if isinstance(place, dict) else range(len(place))


def _other_array(array: Any, rng: np.random.Generator) -> Any:
    match rng.integers(6):
        case 0:
            return array[: array.shape[0] // 2] if array.ndim else array.reshape(1)
        case 1:
            return array.reshape(-1, 1)
        case 2:
            return array.astype(rng.choice([np.float32, np.float64, np.int32, np.int64, np.uint8]))
        case 3:
            return np.concatenate([array, array]) if array.ndim else array
        case _:
            array = array.copy()
            if array.size and array.dtype != bool:
                limits = np.finfo if array.dtype.kind == "f" else np.iinfo
                low, high = limits(array.dtype).min, limits(array.dtype).max
                values = [low, high, 0, 1, array.size]
                if array.dtype.kind == "f":
                    values += [np.nan, np.inf, -1, 1e-30]
                for at in rng.integers(0, array.size, rng.integers(1, 4)):
                    array.flat[at] = values[rng.integers(len(values))]
            return array
