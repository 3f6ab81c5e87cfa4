"""One file: named arrays and a JSON document, in the safetensors format.

The header's metadata hold the document, the version of this format, and a SHA-256 of the whole file
with the digest itself blanked out. Nothing in a file is ever executed, and nothing of it is
interpreted before its checksum holds. A file is written beside its place and then renamed: whatever
happens meanwhile, the old file or the new one is there, whole.
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
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

FORMAT = "vicinal"
VERSION = 1

_MOST_HEADER = 8 << 20  # bytes; the arrays are not in it
_BLANK = "0" * 64
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_CHUNK = 1 << 20

Arrays = dict[str, NDArray[Any]]


class ModelFormatError(ValueError):
    """A file holds no model that can be trusted, and the message says why."""


@dataclass(frozen=True)
class Contents:
    """What a file holds."""

    document: Any
    arrays: Arrays
    library_version: str
    n_bytes: int


def write(path: Path, document: Any, arrays: Mapping[str, NDArray[Any]], library: str) -> None:
    """Write a file, all of it or nothing."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    if len(text) > _MOST_HEADER // 2:
        raise ValueError(
            f"the model's description takes {len(text):,} bytes beside its arrays, and a file has"
            f" room for {_MOST_HEADER // 2:,}: does a parameter hold data?"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is no folder: make it first, or choose another.")
    metadata = {
        "format": FORMAT,
        "format_version": str(VERSION),
        "library_version": library,
        "sha256": _BLANK,
        "document": text,
    }
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        save_file(dict(arrays), partial, metadata)
        with partial.open("r+b") as file:
            header = _read_header(file)
            file.seek(_digest_at(header))
            file.write(_digest(file, header).encode())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read(path: Path) -> Contents:
    """Read a file that `write` has written.

    Raises
    ------
    ModelFormatError
        If it is another kind of file, of a newer version, or not as it was written.
    """
    with path.open("rb") as file:
        header = _read_header(file)
        metadata = _metadata(header)
        _check_version(metadata)
        found = _DIGEST.search(header)
        if found is None or found[1].decode() != _digest(file, header):
            raise ModelFormatError(
                f"{path} is damaged: its contents do not have the checksum that they were written"
                " with. Restore the file from a copy, or train the model again."
            )
        n_bytes = os.fstat(file.fileno()).st_size
    try:
        with safe_open(path, framework="numpy") as tensors:
            arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
        document = json.loads(metadata["document"])
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path} is no model file: {error}") from error
    return Contents(document, arrays, str(metadata.get("library_version")), n_bytes)


def _read_header(file: Any) -> bytes:
    """Return the length of the header and the header, the first bytes of a safetensors file."""
    file.seek(0)
    size = file.read(8)
    length = int.from_bytes(size, "little")
    if len(size) < 8 or not 2 <= length <= _MOST_HEADER:
        raise ModelFormatError(f"{file.name} is no model file: it does not begin with a header.")
    header = file.read(length)
    if len(header) < length:
        raise ModelFormatError(f"{file.name} ends inside its header: it was cut off.")
    return bytes(size + header)


def _metadata(header: bytes) -> dict[str, Any]:
    try:
        metadata = json.loads(header[8:])["__metadata__"]
        if metadata["format"] != FORMAT:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFormatError("this is no model file: its header is not one of vicinal's.") from (
            error
        )
    return dict(metadata)


def _check_version(metadata: Mapping[str, Any]) -> None:
    version = str(metadata.get("format_version"))
    if not version.isascii() or not version.isdigit():
        raise ModelFormatError(f"this is no model file: {version[:20]!r} is no format version.")
    if int(version[:9]) > VERSION:
        raise ModelFormatError(
            f"this file has format {version[:9]}, written by vicinal"
            f" {str(metadata.get('library_version'))[:40]}; this installation reads formats up to"
            f" {VERSION}: upgrade vicinal to read it."
        )


def _digest_at(header: bytes) -> int:
    found = _DIGEST.search(header)
    assert found is not None
    return found.start(1)


def _digest(file: Any, header: bytes) -> str:
    """Hash a whole file, whose digest is taken for blank."""
    digest = hashlib.sha256(_DIGEST.sub(b'"sha256":"' + _BLANK.encode() + b'"', header))
    file.seek(len(header))
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
