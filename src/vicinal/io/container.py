"""One file: named arrays and a JSON document, in the safetensors format.

The header's metadata have one entry, JSON again, with the version of this format, the document and
a SHA-256 of the whole file, the digest itself blanked out. Nothing in a file is ever executed, and
nothing of it is interpreted before its checksum holds. A file is written beside its place and then
renamed: whatever happens meanwhile, the old file or the new one is there, whole.

A checksum finds damage, not malice: whoever reads a document checks what it says as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

VERSION = 1

_ENTRY = "vicinal"  # one only: safetensors writes several in any order, and equal files are handy

# What reading a header may cost: Python takes about a hundred bytes for each thing in it.
_MOST_HEADER = 8 << 20
_MOST_THINGS = 1 << 18

_BLANK = b"0" * 64
_DIGEST = re.compile(rb'(?<=\\"sha256\\":\\")[0-9a-f]{64}(?=\\")')

_TYPES = {
    **{f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    "BOOL": "?",
}
"""The types of arrays by safetensors' names, as NumPy calls them."""

Arrays = dict[str, NDArray[Any]]


class ModelFormatError(ValueError):
    """A file holds no model that can be trusted, and the message says why."""


@dataclass(frozen=True)
class Contents:
    """What a file holds."""

    document: Any
    arrays: Arrays
    format_version: int
    library_version: str
    n_bytes: int


def write(path: Path, document: Any, arrays: Mapping[str, NDArray[Any]], library: str) -> None:
    """Write a file, all of it or nothing."""
    entry = {"format_version": VERSION, "library_version": library, "sha256": _BLANK.decode()}
    text = json.dumps({**entry, "document": document}, allow_nan=False, separators=(",", ":"))
    # Half of the room: the arrays' names and shapes take some of it as well.
    if 2 * len(text) > _MOST_HEADER or 2 * _n_things(text.encode()) > _MOST_THINGS:
        raise ValueError(
            f"what a model is beside its numeric arrays takes {len(text):,} bytes, more than a"
            " model file has room for: does a parameter, or a class label, hold data?"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is no folder: make it first, or choose another.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no plain file, and a model cannot take its place.")
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        partial.touch()
        mode = partial.stat().st_mode
        save_file(dict(arrays), partial, {_ENTRY: text})
        partial.chmod(mode)  # safetensors lets nobody else read its files
        with partial.open("r+b") as file:
            header = _read_header(file)
            found = _DIGEST.search(header)
            assert found is not None
            digest = _digest(header, np.fromfile(file, dtype=np.uint8))
            file.seek(found.start())
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read(path: Path) -> Contents:
    """Read a file that `write` has written.

    The arrays are views of one buffer, which takes the size of the file: safetensors itself would
    map the file and copy it. What is believed is what was hashed.

    Raises
    ------
    ModelFormatError
        If it is another kind of file, of a newer version, or not as it was written.
    """
    with path.open("rb") as file:
        header = _read_header(file)
        tensors, entry = _entries(header)
        data = np.fromfile(file, dtype=np.uint8)
    found = _DIGEST.search(header)
    if found is None or found[0] != _digest(header, data):
        raise ModelFormatError(
            "it is damaged: it does not have the checksum that it was written with. Restore it"
            " from a copy, or train the model again"
        )
    return Contents(
        entry["document"],
        {name: _array(data, **tensor) for name, tensor in tensors.items()},
        entry["format_version"],
        entry["library_version"],
        len(header) + len(data),
    )


def _array(
    data: NDArray[np.uint8], dtype: str, shape: list[int], data_offsets: list[int]
) -> NDArray[Any]:
    begin, end = data_offsets
    array = data[begin:end].view(_TYPES[dtype]).reshape(shape)
    return np.require(array, requirements="A")  # the writer aligns; others may not


def _read_header(file: BinaryIO) -> bytes:
    """Return the first bytes of a safetensors file: the length of its header, and the header."""
    file.seek(0)
    size = file.read(8)
    length = int.from_bytes(size, "little")
    if len(size) < 8 or not 2 <= length <= _MOST_HEADER:
        raise ModelFormatError("it does not begin like a model file")
    header = file.read(length)
    if len(header) < length:
        raise ModelFormatError("it ends inside its header: it was cut off")
    if _n_things(header) > _MOST_THINGS:
        raise ModelFormatError("its header holds more than that of any model")
    return size + header


def _n_things(text: bytes) -> int:
    """Return at least how many values and names there are in some JSON."""
    return sum(text.count(mark) for mark in (b",", b"[", b"{"))


def _entries(header: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries of the arrays, and that of ours."""
    try:
        tensors = json.loads(header[8:])
        entry = json.loads(tensors.pop("__metadata__")[_ENTRY])
        version, library = entry["format_version"], str(entry["library_version"])[:40]
        known = isinstance(version, int) and version >= 1
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known = False
    if not known:
        raise ModelFormatError("its header is not that of a model file")
    if version > VERSION:
        raise ModelFormatError(
            f"it has format {version}, written by vicinal {library}, and this installation reads"
            f" formats up to {VERSION}: upgrade vicinal to read it"
        )
    return tensors, {**entry, "library_version": library}


def _digest(header: bytes, data: NDArray[np.uint8]) -> bytes:
    """Hash a whole file, whose digest is taken for blank."""
    digest = hashlib.sha256(_DIGEST.sub(_BLANK, header))
    digest.update(data.data)
    return digest.hexdigest().encode()
