"""From the objects of a fitted model to a JSON document with named arrays, and back.

Numbers, strings, None and lists stand for themselves. Everything else is a JSON object of one key,
its kind: a tuple, a dict, an array, or an instance of one of the classes that were registered, by
name. Nothing is imported by a name in a document, and nothing of it is called but those classes.
An array is named after the place where it was met first, and kept once however often it is met.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.io.container import Arrays, ModelFormatError

_NUMBERS = "?bhilqBHILQefd"  # the kinds of arrays that a file holds as they are
_LAST_CHARACTER = 0x10FFFF


@dataclass(frozen=True)
class Kind:
    """A class whose instances may be saved: how to take them apart and put them together."""

    type: type
    parts: Callable[[Any], dict[str, Any]]
    whole: Callable[[Mapping[str, Any]], Any]


class Encoder:
    """Takes objects apart; `arrays` are those that were met."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = {kind.type: (name, kind) for name, kind in kinds.items()}
        self._places: dict[tuple[Any, ...], str] = {}
        self.arrays: Arrays = {}

    def encode(self, value: Any, place: str) -> Any:
        """Return the document of a value; its place in the model names it and its arrays."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is list:
            return [self.encode(item, f"{place}[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": self.encode(list(value), place)}
        if type(value) is dict:
            return {
                "dict": [
                    [self.encode(key, place), self.encode(item, f"{place}[{key!r}]")]
                    for key, item in value.items()
                ]
            }
        if type(value) in self._kinds:
            name, kind = self._kinds[type(value)]
            parts = kind.parts(value).items()
            return {name: {key: self.encode(part, f"{place}.{key}") for key, part in parts}}
        if isinstance(value, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(value)
            return {"masked": self.encode([np.asarray(value.data), mask], place)}
        if isinstance(value, np.ndarray):
            return self._encode_array(value, place)
        if isinstance(value, np.generic):
            return {"scalar": self._encode_array(np.asarray(value), place)}
        raise TypeError(
            f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which a model file"
            f" cannot hold. Beside numbers, strings and arrays, files hold"
            f" {', '.join(sorted(name for name, _ in self._kinds.values()))}."
        )

    def _encode_array(self, array: NDArray[Any], place: str) -> Any:
        if array.dtype.char == "O":
            if array.size and all(type(item) is str for item in array.ravel()):
                strings = array.astype(str)
                if (strings.astype(object) == array).all():  # NumPy's lose NULs at their ends
                    return {"object_strings": self._encode_array(strings, place)}
            items = self.encode(array.ravel().tolist(), place)
            return {"objects": {"items": items, "shape": list(array.shape)}}
        if array.dtype.char == "U":
            width = max(1, array.dtype.itemsize // 4)
            points = np.ascontiguousarray(array).astype(f"=U{width}")
            return {
                "strings": self._keep(points.view(np.uint32).reshape(*array.shape, width), place)
            }
        if array.dtype.char not in _NUMBERS:
            raise TypeError(
                f"{place} is an array of {array.dtype}, which a model file cannot hold."
            )
        return {"array": self._keep(array, place)}

    def _keep(self, array: NDArray[Any], place: str) -> str:
        native = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        content = hashlib.blake2b(native.data if native.size else b"").digest()
        known = (native.dtype.str, native.shape, content)
        if known not in self._places:
            self._places[known] = place
            self.arrays[place] = native
        return self._places[known]


class _Parts(Mapping[str, Any]):
    """The parts of an object, put together when asked for: a small one may refuse a file."""

    def __init__(self, decoder: Decoder, documents: dict[str, Any]) -> None:
        self._decoder = decoder
        self._documents = documents

    def __getitem__(self, name: str) -> Any:
        return self._decoder.decode(self._documents[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)


class Decoder:
    """Puts objects together; raises where a document makes no sense."""

    def __init__(self, kinds: Mapping[str, Kind], arrays: Arrays) -> None:
        self._kinds = kinds
        self._arrays = arrays
        self._used: set[str] = set()
        self._readers: Mapping[str, Callable[[Any], Any]] = {
            "tuple": lambda content: tuple(self.decode(content)),
            "dict": lambda content: {self.decode(key): self.decode(item) for key, item in content},
            "float": self._float,
            "array": self._array,
            "scalar": lambda content: self.decode(content)[()],
            "strings": self._strings,
            "object_strings": lambda content: self.decode(content).astype(object),
            "objects": self._objects,
            "masked": lambda content: np.ma.masked_array(*self.decode(content)),
        }

    def decode(self, node: Any) -> Any:
        """Return the value of a document."""
        if node is None or isinstance(node, bool | str | int | float):
            return node
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        ((name, content),) = node.items()
        if name in self._kinds:
            return self._kinds[name].whole(_Parts(self, content))
        if name not in self._readers:
            raise ModelFormatError(f"{name[:60]!r} is nothing that a model file may hold")
        return self._readers[name](content)

    def check_all_used(self) -> None:
        """Raise if the file holds an array that belongs to nothing."""
        if unused := set(self._arrays) - self._used:
            raise ModelFormatError(f"the array {min(unused)[:60]!r} belongs to nothing")

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            raise ModelFormatError(f"the array {name[:60]!r} is missing")
        self._used.add(name)
        return self._arrays[name]

    def _float(self, text: str) -> float:
        if text not in ("nan", "inf", "-inf"):
            raise ModelFormatError(f"{text[:60]!r} is no float")
        return float(text)

    def _strings(self, name: str) -> NDArray[Any]:
        codes = self._array(name)
        if codes.dtype != np.uint32 or not (codes <= _LAST_CHARACTER).all():
            raise ModelFormatError(f"the array {name[:60]!r} holds no strings")
        return codes.view(f"=U{codes.shape[-1]}").reshape(codes.shape[:-1])

    def _objects(self, content: Any) -> NDArray[Any]:
        items = self.decode(content["items"])
        flat = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # an item may be a list
            flat[i] = item
        return flat.reshape(content["shape"])
