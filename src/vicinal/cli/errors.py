"""What goes wrong in a way that a person can mend: one line tells, and no traceback."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN_NAMES = 8


def some(names: Sequence[str]) -> str:
    """Return names for a line: all of a few, the first of many."""
    shown = ", ".join(names[:_SHOWN_NAMES])
    more = len(names) - _SHOWN_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


class UsageError(Exception):
    """The command line asks for something that there is not."""


class DataError(ValueError):
    """A file does not hold what it should; the message names the file and the place in it."""

    @classmethod
    def at(
        cls,
        name: str,
        problem: str,
        *,
        line: int | None = None,
        row: int | None = None,
        column: int | None = None,
        title: str | None = None,
    ) -> DataError:
        """Say what is wrong where; lines, rows and columns count from 1."""
        place = [name]
        if line is not None:
            place.append(f"line {line:,}")
        if row is not None:
            place.append(f"row {row:,}")
        if column is not None:
            place.append(f"column {column}" + (f" ({title})" if title else ""))
        return cls(f"{', '.join(place)}: {problem}")
