"""The directive `benchmark-tables`: every file of benchmarks/results as a section.

A section has the claim that the benchmark makes, how it is measured, the command, the machine, and
the rows in tables, formatted as `benchmarks/run.py` prints them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from common import RESULTS, Row, show

MANY_ROWS = 16  # such a table is folded
MANY_COLUMNS = 6  # a single row of more columns stands upright
LONG = 30  # characters of a cell that may be broken into lines


class BenchmarkTables(SphinxDirective):
    """Has no arguments: it shows what is stored."""

    def run(self) -> list[nodes.Node]:
        found = sorted(RESULTS.glob("*.json"))
        for path in found:
            self.env.note_dependency(str(path))
        return [section(path) for path in found]


def section(path: Path) -> nodes.section:
    stored = json.loads(path.read_text(encoding="utf-8"))
    title = path.stem.replace("_", " ")
    content = nodes.section(ids=[nodes.make_id(path.stem)], names=[title])
    content += nodes.title("", title)
    content += paragraph(stored["claim"], "claim")
    for text in method(stored["benchmark"]):
        content += paragraph(text)
    command = f"python benchmarks/run.py {stored['benchmark']}"
    content += nodes.literal_block(command, command, language="console")
    content += paragraph(f"Measured on {machine(stored['machine'])}.", "machine")
    for _, rows in groupby(stored["rows"], key=list):
        content += table(list(rows))
    return content


def method(name: str) -> list[str]:
    """How a benchmark measures: its docstring's paragraphs between claim and first title."""
    path = RESULTS.parent / f"{name}.py"
    if not path.is_file():
        return []
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    described = re.split(r"\n.+\n-{3,}\n", docstring)[0]
    return described.split("\n\n")[1:]


def machine(of: dict[str, Any]) -> str:
    versions = [f"{name} {of[name]}" for name in of if name not in ("cpu", "cores", "system")]
    return f"{of['cores']} cores of {of['cpu']}, {of['system']}, {', '.join(versions)}"


def paragraph(text: str, *classes: str) -> nodes.paragraph:
    """Plain text, in which `backticks` are code."""
    made = nodes.paragraph(classes=list(classes))
    for i, part in enumerate(text.split("`")):
        made += nodes.literal("", part) if i % 2 else nodes.Text(part.replace("\n", " "))
    return made


def table(rows: Sequence[Row]) -> Iterator[nodes.Node]:
    titles = list(rows[0])
    if len(rows) == 1 and len(titles) > MANY_COLUMNS:
        yield grid([], [[title, rows[0][title]] for title in titles], "upright")
    elif len(rows) < MANY_ROWS:
        yield grid(titles, [list(row.values()) for row in rows])
    else:
        summary = f"<details><summary>{len(rows)} rows</summary>"
        yield nodes.raw("", summary, format="html")
        yield grid(titles, [list(row.values()) for row in rows])
        yield nodes.raw("", "</details>", format="html")


def grid(titles: list[str], rows: list[list[Any]], *classes: str) -> nodes.table:
    made = nodes.table(classes=["benchmark", *classes])
    group = nodes.tgroup(cols=len(rows[0]))
    made += group
    for _ in rows[0]:
        group += nodes.colspec(colwidth=1)
    if titles:
        head = nodes.thead()
        head += line([breakable(title) for title in titles], rows[0])
        group += head
    body = nodes.tbody()
    for row in rows:
        body += line([show(value) for value in row], row)
    group += body
    return made


def line(texts: list[str], values: list[Any]) -> nodes.row:
    """A row of a table; what stands over or in place of a number goes to the right."""
    made = nodes.row()
    for text, value in zip(texts, values, strict=True):
        kind = "number" if not isinstance(value, str) else "long" if len(text) > LONG else "short"
        entry = nodes.entry(classes=[kind])
        entry += nodes.paragraph("", text)
        made += entry
    return made


def breakable(title: str) -> str:
    """Let a browser break a title between its words, but not before a unit."""
    return re.sub(r"_(?=\w{3})", "_\u200b", title)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("benchmark-tables", BenchmarkTables)
    return {"version": "1", "parallel_read_safe": True}
