"""Files as streams of bytes: compressed or not, `-` for standard input and output."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import secrets
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from vicinal.cli.errors import DataError, UsageError

STANDARD = "-"

Stream = IO[bytes]


def _open_zstd(path: Path, mode: str) -> Any:
    from vicinal.cli.data.zstd import open_zstd

    return open_zstd(path, mode)


_COMPRESSED: dict[str, Callable[[Path, str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}


def is_compressed(path: str) -> bool:
    """Return whether a name ends like that of a compressed file."""
    return Path(path).suffix.lower() in _COMPRESSED


def ending(path: str) -> str:
    """Return the ending of a name, without that of a compression: ".csv" for data.csv.gz."""
    file = Path(path)
    return (file.with_suffix("") if is_compressed(path) else file).suffix.lower()


def title(path: str) -> str:
    """Return how messages call a file."""
    return "standard input" if path == STANDARD else path


@contextmanager
def source(path: str) -> Iterator[Stream]:
    """Open a file to read."""
    if path == STANDARD:
        if sys.stdin is None:
            raise DataError("standard input is closed.")
        yield sys.stdin.buffer
    elif not is_compressed(path):
        with open(path, "rb") as stream:
            yield stream
    else:
        with _COMPRESSED[Path(path).suffix.lower()](Path(path), "rb") as stream:
            yield cast(Stream, _Decompressed(stream, path))


class _Decompressed:
    """A compressed file whose errors name it."""

    def __init__(self, stream: Stream, path: str) -> None:
        self._stream = stream
        self._path = path

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stream.read(size)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise self._damaged(error) from error
        except Exception as error:
            if type(error).__name__ != "ZstdError":  # which may not be there to be imported
                raise
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> DataError:
        kind = Path(self._path).suffix
        return DataError(f"{self._path} is cut off, damaged, or no {kind} file: {error}")


@contextmanager
def seekable(path: str) -> Iterator[Stream]:
    """Open a file whose format is not read from front to back."""
    with source(path) as stream:
        if path != STANDARD and not is_compressed(path):
            yield stream
            return
        with tempfile.TemporaryFile() as copy:  # it has no name, and goes with the process
            shutil.copyfileobj(stream, copy)
            copy.seek(0)
            yield cast(Stream, copy)


@contextmanager
def sink(path: str) -> Iterator[Stream]:
    """Open a file to write; it is there when all is written, and not before."""
    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with naming(path):
        yield from _file_sink(path)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Say which file is on a disk that is full: errors of writing do not."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None:
            error.filename = path
        raise


def _file_sink(path: str) -> Iterator[Stream]:
    if Path(path).exists() and not Path(path).is_file():  # a device or a named pipe
        with open(path, "wb") as stream:
            yield stream
        return
    check_folder(path)
    target = Path(path).resolve()  # a link stays a link
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    opener = _COMPRESSED.get(target.suffix.lower(), open)
    try:
        with opener(partial, "wb") as stream:
            yield cast(Stream, stream)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def check_not_input(output: str, *inputs: str | None) -> None:
    """Raise if what is written would replace what is read."""
    for given in inputs:
        if given is None or STANDARD in (given, output):
            continue
        there = Path(output).is_file() and Path(given).exists()
        if there and Path(output).samefile(given):
            raise UsageError(f"{output} is the same file as {given}, which is read: write another.")


def check_folder(path: str) -> None:
    """Raise if a file cannot be written because its folder is not there."""
    folder = Path(path).resolve().parent
    if path != STANDARD and not folder.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}.")
