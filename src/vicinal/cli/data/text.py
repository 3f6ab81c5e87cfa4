"""Text as blocks of whole lines, which know where they stand in their file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vicinal.cli.data.streams import Stream
from vicinal.cli.errors import DataError

BLOCK_BYTES = 4 << 20
"""Enough to be parsed fast, and so little that Ctrl-C is heard at once."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file."""

    text: bytes
    name: str
    first_line: int

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield number and text of each line."""
        for number, line in enumerate(self.text.split(b"\n"), self.first_line):
            try:
                yield number, line.decode()
            except UnicodeDecodeError as error:
                raise DataError.at(
                    self.name, f"this is no UTF-8 text ({error.reason})", line=number
                ) from error


def blocks(stream: Stream, name: str) -> Iterator[Block]:
    """Cut a stream at ends of lines."""
    first_line = 1
    waiting: list[bytes] = []
    while chunk := stream.read(BLOCK_BYTES):
        end = chunk.rfind(b"\n") + 1
        if not end:
            waiting.append(chunk)
            continue
        text = b"".join([*waiting, chunk[:end]])
        yield _block(text, name, first_line)
        first_line += text.count(b"\n")
        waiting = [chunk[end:]]
    if any(waiting):
        yield _block(b"".join(waiting), name, first_line)


def _block(text: bytes, name: str, first_line: int) -> Block:
    return Block(text.removeprefix(_BYTE_ORDER_MARK) if first_line == 1 else text, name, first_line)
