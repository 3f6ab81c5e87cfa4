"""From the objects of a fitted model to a JSON document with named arrays, and back.

Numbers, strings, None and lists stand for themselves. Everything else is a JSON object of one key,
its kind: a tuple, a dict, an array, or an instance of one of the classes that were registered, by
name. Nothing is imported by a name in a document, and nothing of it is called but those classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.io.container import Arrays, ModelFormatError

_NUMBERS = "?bhilqBHILQefd"  # the kinds of arrays that a file holds as they are


@dataclass(frozen=True)
class Kind:
    """A class whose instances may be saved: how to take them apart and put them together."""

    type: type
    parts: Callable[[Any], dict[str, Any]]
    whole: Callable[[dict[str, Any]], Any]


class Encoder:
    """Takes an object apart; one array that is met twice is kept once."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._names = {kind.type: (name, kind) for name, kind in kinds.items()}
        self._place: dict[int, str] = {}
        self._kept: list[Any] = []  # as long as these live, their ids are theirs
        self.arrays: Arrays = {}

    def encode(self, value: Any, path: str) -> Any:
        """Return the document of a value; `path` names it in errors."""
        if value is None or isinstance(value, bool | str | int) and type(value) in _PLAIN:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is list:
            return [self.encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": self.encode(list(value), path)}
        if type(value) is dict:
            return {
                "dict": [
                    [self.encode(key, path), self.encode(item, f"{path}[{key!r}]")]
                    for key, item in value.items()
                ]
            }
        if isinstance(value, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(value)
            parts = [np.asarray(value.data), mask]
            return {"masked": [self.encode(part, path) for part in parts]}
        if isinstance(value, np.ndarray):
            return self._encode_array(value, path)
        if isinstance(value, np.generic):
            return {"scalar": self._encode_array(np.asarray(value), path)}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.encode(value.get_state(), path)}
        if type(value) in self._names:
            name, kind = self._names[type(value)]
            parts = kind.parts(value)
            return {
                name: {key: self.encode(part, f"{path}.{key}") for key, part in parts.items()}
            }
        raise TypeError(
            f"{path} is a {type(value).__module__}.{type(value).__qualname__}, which a model file"
            f" cannot hold. Files hold {', '.join(sorted(n for n, _ in self._names.values()))}."
        )

    def _encode_array(self, array: NDArray[Any], path: str) -> Any:
        if array.dtype.char == "O":
            items = [self.encode(item, path) for item in array.ravel().tolist()]
            if items and all(type(item) is str for item in items):
                return {"object_strings": self._encode_array(array.astype(str), path)}
            return {"objects": items, "shape": list(array.shape)}
        if array.dtype.char == "U":
            width = max(1, array.dtype.itemsize // 4)
            points = np.ascontiguousarray(array).astype(f"<U{width}")
            codes = points.view("<u4").reshape(*array.shape, width)
            return {"strings": self._keep(codes)}
        if array.dtype.char not in _NUMBERS:
            raise TypeError(f"{path} is an array of {array.dtype}, which a model file cannot hold.")
        return {"array": self._keep(array)}

    def _keep(self, array: NDArray[Any]) -> str:
        if id(array) not in self._place:
            self._place[id(array)] = f"a{len(self.arrays)}"
            self.arrays[self._place[id(array)]] = np.ascontiguousarray(array)
            self._kept.append(array)
        return self._place[id(array)]


_PLAIN = (bool, str, int)


class Decoder:
    """Puts an object together; raises `ModelFormatError` where a document makes no sense."""

    def __init__(self, kinds: Mapping[str, Kind], arrays: Arrays) -> None:
        self._kinds = kinds
        self._arrays = arrays
        self._used: set[str] = set()

    def decode(self, node: Any) -> Any:
        """Return the value of a document."""
        if node is None or isinstance(node, bool | str | int | float):
            return node
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if "objects" in node and set(node) == {"objects", "shape"}:
            return self._objects(node["objects"], node["shape"])
        ((kind, content),) = node.items()
        if kind in self._kinds:
            parts = {str(key): self.decode(part) for key, part in content.items()}
            return self._kinds[kind].whole(parts)
        if kind not in self._READERS:
            raise ModelFormatError(f"{str(kind)[:60]!r} is nothing that a model file may hold.")
        return self._READERS[kind](self, content)

    def check_all_used(self) -> None:
        """Raise if the file holds an array that nothing refers to."""
        if unused := set(self._arrays) - self._used:
            raise ModelFormatError(f"array {min(unused)[:60]!r} belongs to nothing.")

    def _array(self, name: Any) -> NDArray[Any]:
        if name not in self._arrays:
            raise ModelFormatError(f"array {str(name)[:60]!r} is missing.")
        self._used.add(name)
        return self._arrays[name]

    def _float(self, text: Any) -> float:
        if text not in ("nan", "inf", "-inf"):
            raise ModelFormatError(f"{str(text)[:60]!r} is no float.")
        return float(text)

    def _dict(self, items: Any) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in items}

    def _strings(self, name: Any) -> NDArray[Any]:
        codes = self._array(name)
        if codes.dtype != np.uint32 or codes.ndim < 1 or codes.shape[-1] < 1:
            raise ModelFormatError(f"array {name!r} holds no strings.")
        if codes.size and int(codes.max()) > 0x10FFFF:
            raise ModelFormatError(f"array {name!r} holds what is no character.")
        return codes.view(f"<U{codes.shape[-1]}").reshape(codes.shape[:-1])

    def _objects(self, items: Any, shape: Any) -> NDArray[Any]:
        flat = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            flat[i] = self.decode(item)
        return flat.reshape([int(n) for n in shape])

    def _masked(self, parts: Any) -> Any:
        data, mask = (self.decode(part) for part in parts)
        return np.ma.masked_array(data, mask=mask)

    def _random_state(self, state: Any) -> np.random.RandomState:
        generator = np.random.RandomState()
        generator.set_state(self.decode(state))
        return generator

    _READERS: Mapping[str, Callable[[Decoder, Any], Any]] = {
        "tuple": lambda self, content: tuple(self.decode(content)),
        "dict": _dict,
        "float": _float,
        "array": _array,
        "scalar": lambda self, content: self.decode(content)[()],
        "strings": _strings,
        "object_strings": lambda self, content: self.decode(content).astype(object),
        "masked": _masked,
        "random_state": _random_state,
    }
