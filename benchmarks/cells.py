"""Cells of long runs: each is kept as it finishes, and a run that starts again goes on there."""

from __future__ import annotations

import json
from collections.abc import Callable

from common import RESULTS, Config, Row, as_json


class Cells:
    """What has been measured so far, one line of JSON a cell, in results/NAME.cells.jsonl.

    Delete the file, or the lines of some cells, to measure them again. Under `config.quick` nothing
    is read or kept.
    """

    def __init__(self, name: str, config: Config) -> None:
        self.path = None if config.quick else RESULTS / f"{name}.cells.jsonl"
        self.known: dict[str, Row] = {}
        if self.path is not None and self.path.is_file():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                cell = json.loads(line)
                self.known[as_json(cell["key"])] = cell["found"]

    def __call__(self, key: Row, measure: Callable[[], Row]) -> Row:
        """Return what was found under a key, after measuring it if it is new."""
        name = as_json(key)
        if name not in self.known:
            found = json.loads(as_json(measure()))
            self.known[name] = found
            if self.path is not None:
                RESULTS.mkdir(exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(as_json({"key": key, "found": found}) + "\n")
        return self.known[name]
