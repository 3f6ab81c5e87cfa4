"""Zstandard files as streams that notice when they were cut off.

The reader of the package zstandard takes the end of a file for the end of its data.
"""

from __future__ import annotations

from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

try:
    import zstandard
except ImportError as error:
    raise ImportError(
        "files that end in .zst need the package zstandard: pip install 'vicinal[cli]'"
    ) from error

_CHUNK = 1 << 16


def open_zstd(path: Path, mode: str) -> Any:
    """Open a file like `gzip.open`, with mode "rb" or "wb"."""
    return BufferedReader(_Reader(path)) if mode == "rb" else zstandard.open(path, mode)


class _Reader(RawIOBase):
    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._frame: Any = None
        self._waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting and (chunk := self._file.read(_CHUNK)):
            self._waiting = memoryview(self._decompress(chunk))
        if not self._waiting and self._frame is not None:
            raise EOFError("the file ends inside its data")
        n = min(len(buffer), len(self._waiting))
        buffer[:n], self._waiting = self._waiting[:n], self._waiting[n:]
        return n

    def _decompress(self, chunk: bytes) -> bytes:
        found = []
        while chunk:
            self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            found.append(self._frame.decompress(chunk))
            chunk = b""
            if self._frame.eof:  # another one may follow
                chunk, self._frame = self._frame.unused_data, None
        return b"".join(found)

    def close(self) -> None:
        self._file.close()
        super().close()
